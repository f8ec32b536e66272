"""The example file that `odradek pipeline init` writes."""

from typing import Final

EXAMPLE: Final = """\
# Reads topics, transforms them with SQL, writes tables and topics.
# Check it with `odradek pipeline validate {file}`, run it with `odradek pipeline run {file}`.
name: {name}
bootstrap: {bootstrap}
# command_config: client.properties   # TLS and SASL settings, as for Kafka's tools

sources:                  # each source is a view
  orders:
    topic: orders         # JSON records
    schema: id bigint, product string, amount double, at timestamp
    from: beginning       # or end
    # watermark: at 10 minutes   # how late rows may arrive; aggregates in tables need it

transformations:          # each transformation is a view and may use the views above it
  large_orders: |
    SELECT id, product, amount, at, _partition, _offset FROM orders WHERE amount >= 100
  totals: |
    SELECT product, count(*) AS orders, sum(amount) AS amount FROM orders GROUP BY product
  # cleaned: {{python: "cleaning.py:clean", from: orders}}   # a function in a file next to this one

sinks:
  large_orders_table:
    from: large_orders
    table: tables/large_orders   # relative to this file
    format: delta                # or parquet or iceberg
  totals_topic:
    from: totals
    topic: totals
    key: product
    mode: update          # writes changed rows; append writes final rows

dead_letters: orders-dead # for records that do not fit the schema; without it they stop the pipeline
trigger: once             # or an interval such as 10s to keep running
"""


def example(name: str, bootstrap: str, file: str) -> str:
    return EXAMPLE.format(name=name, bootstrap=bootstrap, file=file)

"""What `odradek pipeline init` writes: a pipeline that works, to be changed."""

from typing import Final

EXAMPLE: Final = """\
# Topics through SQL into tables and topics. `odradek pipeline validate {file}` checks it, `… run {file}` runs it.
name: {name}
bootstrap: {bootstrap}
# command_config: client.properties   # TLS and SASL, as Kafka's own tools take them

sources:                  # each becomes a view of its name
  orders:
    topic: orders         # records of JSON
    schema: id bigint, product string, amount double, at timestamp
    from: beginning       # or end
    # watermark: at 10 minutes   # how late rows may come; a table of totals needs it

transformations:          # each becomes a view of its name, and may use those above it
  large_orders: |
    SELECT id, product, amount, at, _partition, _offset FROM orders WHERE amount >= 100
  totals: |
    SELECT product, count(*) AS orders, sum(amount) AS amount FROM orders GROUP BY product
  # cleaned: {{python: "cleaning.py:clean", from: orders}}   # a function in a file beside this one

sinks:
  large_orders_table:
    from: large_orders
    table: tables/large_orders   # beside this file
    format: delta                # or parquet
  totals_topic:
    from: totals
    topic: totals
    key: product
    mode: update          # rows that changed; append: rows that are final

dead_letters: orders-dead # where records go that do not fit; without it they stop the pipeline
trigger: once             # or 10s: continue, with a batch every 10 s
"""


def example(name: str, bootstrap: str, file: str) -> str:
    return EXAMPLE.format(name=name, bootstrap=bootstrap, file=file)

"""The pipeline that computes the totals: its file, and reading its topic."""

import json
from typing import Final

from examples.orders.generate import ProductMinute, Totals
from examples.orders.topics import read_latest_by_key

ORDERS: Final = "orders"
ORDERS_PARTITIONS: Final = 3
TOTALS: Final = "orders-per-minute"
TOTALS_PARTITIONS: Final = 2
BAD_ORDERS: Final = "orders-dead"
BAD_TOTALS: Final = "totals-dead"
COLUMNS: Final = (
    "order_id bigint, customer string, product string, quantity bigint, amount_cents bigint, ordered_at_ms bigint"
)
FILE: Final = "shop.yaml"
TEXT: Final = f"""\
# Orders of a topic, summed up by product and minute into another one.
name: shop
bootstrap: {{bootstrap}}
sources:
  orders:
    topic: {ORDERS}
    schema: {COLUMNS}
transformations:
  minutes: SELECT *, ordered_at_ms - ordered_at_ms % 60000 AS minute_ms FROM orders
  totals: >
    SELECT concat(product, ' ', minute_ms) AS id, product, minute_ms,
      count(*) AS orders, sum(quantity) AS quantity, sum(amount_cents) AS revenue_cents
    FROM minutes GROUP BY product, minute_ms
sinks:
  totals: {{{{from: totals, topic: {TOTALS}, key: id, mode: update}}}}
dead_letters: {BAD_TOTALS}
"""


def pipeline_text(bootstrap: str) -> str:
    return TEXT.format(bootstrap=bootstrap)


def read_totals(bootstrap: str) -> dict[ProductMinute, Totals]:
    """The last value of each product and minute is its total."""
    rows = map(json.loads, read_latest_by_key(bootstrap, TOTALS, TOTALS_PARTITIONS).values())
    return {
        ProductMinute(row["product"], row["minute_ms"]): Totals(row["orders"], row["quantity"], row["revenue_cents"])
        for row in rows
    }

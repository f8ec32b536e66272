"""Generates the orders of a shop, the same for the same seed, and computes their totals.

Pure: it uses neither Kafka nor Spark, so that its results can verify both.
"""

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass

CATALOGUE_CENTS = {
    "spool": 450,
    "thread": 120,
    "bobbin": 230,
    "needle": 95,
    "thimble": 310,
    "scissors": 1890,
    "button": 40,
    "ribbon": 275,
}
# Some products sell far better than others.
POPULARITY = (30, 24, 16, 10, 8, 6, 4, 2)
CUSTOMERS = 500
FIRST_ORDER_MS = 1_767_258_000_000  # 2026-01-01 09:00 UTC
MEAN_GAP_MS = 60
# Orders reach the topic up to this much late, so minutes do not complete in order.
LATENESS_MS_MAX = 20_000
MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Order:
    order_id: int
    customer: str
    product: str
    quantity: int
    amount_cents: int
    ordered_at_ms: int

    @property
    def key(self) -> bytes:
        """Orders of one customer share a partition and so stay in order."""
        return self.customer.encode()

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True, order=True)
class ProductMinute:
    """The key of the aggregation."""

    product: str
    minute_ms: int


@dataclass(frozen=True, slots=True)
class Totals:
    orders: int = 0
    quantity: int = 0
    revenue_cents: int = 0

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(
            self.orders + other.orders,
            self.quantity + other.quantity,
            self.revenue_cents + other.revenue_cents,
        )


def generate_orders(count: int, seed: int) -> Iterator[Order]:
    """Yield orders numbered from 0, in the order they reach the topic."""
    random_source = random.Random(seed)
    products = list(CATALOGUE_CENTS)
    arrives_at_ms = FIRST_ORDER_MS
    for order_id in range(count):
        arrives_at_ms += random_source.randint(0, 2 * MEAN_GAP_MS)
        product = random_source.choices(products, POPULARITY)[0]
        quantity = random_source.randint(1, 5)
        yield Order(
            order_id=order_id,
            customer=f"customer-{random_source.randrange(CUSTOMERS):03d}",
            product=product,
            quantity=quantity,
            amount_cents=quantity * CATALOGUE_CENTS[product],
            ordered_at_ms=arrives_at_ms - random_source.randint(0, LATENESS_MS_MAX),
        )


def totals_by_minute(orders: Iterable[Order]) -> dict[ProductMinute, Totals]:
    """Aggregates by product and by the minute of the order, not of its arrival, as the Spark job does."""
    totals: dict[ProductMinute, Totals] = {}
    for order in orders:
        group = ProductMinute(order.product, order.ordered_at_ms - order.ordered_at_ms % MINUTE_MS)
        totals[group] = totals.get(group, Totals()) + Totals(1, order.quantity, order.amount_cents)
    return totals


def totals_by_product(totals: Mapping[ProductMinute, Totals]) -> dict[str, Totals]:
    by_product: dict[str, Totals] = {}
    for group, part in totals.items():
        by_product[group.product] = by_product.get(group.product, Totals()) + part
    return by_product

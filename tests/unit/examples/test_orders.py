"""The parts of the orders pipeline that need neither a broker nor Spark."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from examples.orders.check import Comparison, ParquetContent, comparison_table
from examples.orders.generate import (
    LATENESS_MS_MAX,
    MINUTE_MS,
    Order,
    ProductMinute,
    Totals,
    generate_orders,
    totals_by_minute,
    totals_by_product,
)
from examples.orders.plot import Sample, save_plot

pytestmark = pytest.mark.needs("pyspark")

ORDERS = list(generate_orders(2_000, seed=3))
TOTALS = totals_by_minute(ORDERS)
EXACT = Comparison(TOTALS, len(ORDERS), ParquetContent(TOTALS, len(ORDERS)), TOTALS)


def test_seed_determines_the_orders() -> None:
    assert list(generate_orders(2_000, seed=3)) == ORDERS
    assert list(generate_orders(2_000, seed=4)) != ORDERS
    assert list(generate_orders(500, seed=3)) == ORDERS[:500]


def test_orders_are_numbered_and_late_within_the_bound() -> None:
    assert [order.order_id for order in ORDERS] == list(range(len(ORDERS)))
    latest_ms = 0
    lateness_ms = []
    for order in ORDERS:
        latest_ms = max(latest_ms, order.ordered_at_ms)
        lateness_ms.append(latest_ms - order.ordered_at_ms)
    assert 0 < max(lateness_ms) <= LATENESS_MS_MAX


def test_order_round_trips_through_json() -> None:
    assert Order(**json.loads(ORDERS[0].to_json())) == ORDERS[0]


def test_totals_use_the_minute_of_the_order() -> None:
    order = replace(ORDERS[0], product="spool", quantity=2, amount_cents=900)
    last = replace(order, ordered_at_ms=3 * MINUTE_MS - 1)
    first = replace(order, ordered_at_ms=3 * MINUTE_MS)
    assert totals_by_minute([last, first, first]) == {
        ProductMinute("spool", 2 * MINUTE_MS): Totals(1, 2, 900),
        ProductMinute("spool", 3 * MINUTE_MS): Totals(2, 4, 1_800),
    }


def test_totals_by_product_are_complete() -> None:
    by_product = totals_by_product(TOTALS)
    assert sum(part.orders for part in by_product.values()) == len(ORDERS)
    assert sum(part.revenue_cents for part in by_product.values()) == sum(order.amount_cents for order in ORDERS)


def test_exact_run_has_no_differences() -> None:
    assert EXACT.differences() == []


def one_order_more(totals: dict[ProductMinute, Totals]) -> dict[ProductMinute, Totals]:
    group = next(iter(totals))
    return totals | {group: totals[group] + Totals(1, 1, 100)}


def one_group_less(totals: dict[ProductMinute, Totals]) -> dict[ProductMinute, Totals]:
    return dict(list(totals.items())[1:])


@pytest.mark.parametrize(
    ("comparison", "error"),
    [
        (replace(EXACT, records_in_topic=2_001), "the orders topic holds 2001 records"),
        (replace(EXACT, parquet=ParquetContent(one_order_more(TOTALS), 2_000)), "1 orders are duplicated in Parquet"),
        (replace(EXACT, parquet=ParquetContent(TOTALS, 1_999)), "Parquet holds 1999 different orders"),
        (replace(EXACT, parquet=ParquetContent(one_group_less(TOTALS), 2_000)), "product minutes differ in Parquet"),
        (replace(EXACT, totals_topic=one_order_more(TOTALS)), "product minutes differ in the totals topic"),
        (replace(EXACT, totals_topic=one_group_less(TOTALS)), "product minutes differ in the totals topic"),
        (replace(EXACT, totals_topic={}), "product minutes differ in the totals topic"),
    ],
)
def test_every_kind_of_difference_is_reported(comparison: Comparison, error: str) -> None:
    assert any(error in difference for difference in comparison.differences())


def test_table_marks_differing_products() -> None:
    console = Console(width=120, file=io.StringIO())
    console.print(comparison_table(replace(EXACT, totals_topic=one_order_more(TOTALS))))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    changed = next(iter(TOTALS)).product
    assert any(changed in line and " no " in line for line in lines)
    assert any("all" in line and " no " in line and "2,000" in line and "2,001" in line for line in lines)
    assert sum(" yes " in line for line in lines) == len(totals_by_product(TOTALS)) - 1


def test_chart_is_drawn_for_an_empty_run(tmp_path: Path) -> None:
    for name, samples, totals in (
        ("full", [Sample(0.0, 0, 0, 0), Sample(1.0, 2_000, 1_500, 1_000)], TOTALS),
        ("empty", [Sample(0.0, 0, 0, 0)], {}),
    ):
        path = tmp_path / f"{name}.png"
        save_plot(path, samples, totals)
        assert path.read_bytes().startswith(b"\x89PNG")

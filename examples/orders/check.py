"""Checks a run: the produced orders, the Parquet files and the totals topic must be equal."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.table import Table

from examples.orders.generate import MINUTE_MS, Order, ProductMinute, Totals, totals_by_minute, totals_by_product
from examples.orders.topics import Topics, end_offsets, read_latest_by_key


@dataclass(frozen=True, slots=True)
class ParquetContent:
    totals: Mapping[ProductMinute, Totals]
    distinct_orders: int

    @property
    def rows(self) -> int:
        return sum(totals.orders for totals in self.totals.values())


@dataclass(frozen=True, slots=True)
class Comparison:
    """The four counts of one run."""

    produced: Mapping[ProductMinute, Totals]
    records_in_topic: int
    parquet: ParquetContent
    totals_topic: Mapping[ProductMinute, Totals]

    @property
    def produced_orders(self) -> int:
        return sum(totals.orders for totals in self.produced.values())

    def differences(self) -> list[str]:
        """Describes the differences, the most important first; empty if the run is exact."""
        produced = self.produced_orders
        found = []
        if self.records_in_topic != produced:
            found.append(f"the orders topic holds {self.records_in_topic} records, {produced} were produced")
        if self.parquet.rows != self.parquet.distinct_orders:
            found.append(f"{self.parquet.rows - self.parquet.distinct_orders} orders are duplicated in Parquet")
        if self.parquet.distinct_orders != produced:
            found.append(f"Parquet holds {self.parquet.distinct_orders} different orders, {produced} were produced")
        found += _differing_groups("Parquet", self.produced, self.parquet.totals)
        found += _differing_groups("the totals topic", self.produced, self.totals_topic)
        return found


def compare(spark: SparkSession, bootstrap: str, topics: Topics, parquet: Path, orders: Sequence[Order]) -> Comparison:
    return Comparison(
        produced=totals_by_minute(orders),
        records_in_topic=sum(end_offsets(bootstrap, topics.orders, topics.orders_partitions)),
        parquet=read_parquet(spark, parquet),
        totals_topic=read_totals_topic(bootstrap, topics),
    )


def read_parquet(spark: SparkSession, directory: Path) -> ParquetContent:
    """Reads with Spark, which honours the file sink's log and ignores files of uncommitted batches."""
    orders = spark.read.parquet(str(directory)).cache()
    by_minute = orders.groupBy(
        "product", (F.col("ordered_at_ms") - F.col("ordered_at_ms") % MINUTE_MS).alias("minute_ms")
    ).agg(F.count("*"), F.sum("quantity"), F.sum("amount_cents"))
    content = ParquetContent(
        totals={
            ProductMinute(product, minute_ms): Totals(count, quantity, revenue_cents)
            for product, minute_ms, count, quantity, revenue_cents in by_minute.collect()
        },
        distinct_orders=orders.select("order_id").distinct().count(),
    )
    orders.unpersist()
    return content


def read_totals_topic(bootstrap: str, topics: Topics) -> dict[ProductMinute, Totals]:
    rows = read_latest_by_key(bootstrap, topics.totals, topics.totals_partitions)
    totals = {}
    for key, value in rows.items():
        group, row = json.loads(key), json.loads(value)
        totals[ProductMinute(group["product"], group["minute_ms"])] = Totals(
            row["orders"], row["quantity"], row["revenue_cents"]
        )
    return totals


def comparison_table(comparison: Comparison) -> Table:
    produced = totals_by_product(comparison.produced)
    parquet = totals_by_product(comparison.parquet.totals)
    aggregated = totals_by_product(comparison.totals_topic)
    table = Table(title="Orders by place of counting", show_footer=True)
    table.add_column("product", "all")
    for heading, totals in (("produced", produced), ("in Parquet", parquet), ("in totals topic", aggregated)):
        table.add_column(heading, f"{sum(part.orders for part in totals.values()):,}", justify="right")
    revenue_cents = sum(part.revenue_cents for part in aggregated.values())
    table.add_column("revenue", _money(revenue_cents), justify="right")
    all_equal = not comparison.differences()
    table.add_column("equal", _mark(all_equal), justify="center")
    none = Totals()
    for product in sorted(produced.keys() | parquet.keys() | aggregated.keys(), key=str):
        accounts = [totals.get(product, none) for totals in (produced, parquet, aggregated)]
        table.add_row(
            str(product),
            *(f"{account.orders:,}" for account in accounts),
            _money(accounts[-1].revenue_cents),
            _mark(len(set(accounts)) == 1),
        )
    return table


def _differing_groups(
    where: str, expected: Mapping[ProductMinute, Totals], found: Mapping[ProductMinute, Totals]
) -> list[str]:
    groups = [group for group in expected.keys() | found.keys() if expected.get(group) != found.get(group)]
    if not groups:
        return []
    example = min(groups, key=str)
    return [
        f"{len(groups)} of {len(expected)} product minutes differ in {where}, "
        f"as {example}: {found.get(example)} instead of {expected.get(example)}"
    ]


def _money(cents: int) -> str:
    return f"{cents / 100:,.2f}"


def _mark(equal: bool) -> str:
    return "[green]yes[/green]" if equal else "[red]no[/red]"

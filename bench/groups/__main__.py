"""Measures a thousand idle groups, one large group, and groups during failover and rolling restarts."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rich.table import Table

from bench.groups import large_group, reload, rolling_restart, steady
from bench.page import MANY_GROUPS_SECTION, PAGE, replace_section
from bench.products import wide_console
from bench.report import number
from bench.results import RESULTS, describe_machine

MINUTES = 10.0
QUICK_SECONDS = 15.0
PARTS = ("steady", "large", "reload", "rolling")
CORE_MAX, INTERVALS_MAX, RELOAD_S_MAX, STOP_S_MAX = 0.4, 3, 3.0, 2.0


@dataclass(frozen=True)
class Row:
    title: str
    value: float
    unit: str
    limit: float | None
    """None if there is no target."""

    @property
    def is_met(self) -> bool:
        return self.limit is None or self.value <= self.limit


def main() -> int:
    options = _parse()
    console = wide_console()
    rows: list[Row] = []
    for part in options.only or PARTS:
        measured = list(_PARTS[part](options))
        rows += measured
        for row in measured:
            console.print(f"{row.title}: {_text(row)}")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "groups-scale.json").write_text(json.dumps({row.title: row.value for row in rows}, indent=2) + "\n")
    console.print(_table(rows))
    if options.docs:
        cells = "\n".join(f"| {row.title} | {_text(row)} | {_target(row)} | {_verdict(row)} |" for row in rows)
        replace_section(PAGE, MANY_GROUPS_SECTION, _SECTION.format(rows=cells, **describe_machine()))
    return 0 if all(row.is_met for row in rows) else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.groups", description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help=f"duration of the idle groups (default: {MINUTES:g})"
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_SECONDS:g} s of heartbeats and smaller groups")
    parser.add_argument("--only", choices=PARTS, nargs="+", help="run only these parts")
    parser.add_argument("--docs", action="store_true", help="write the section of docs/benchmarks.md")
    return parser.parse_args()


def _steady(options: argparse.Namespace) -> Iterator[Row]:
    seconds = QUICK_SECONDS if options.quick else options.minutes * 60
    groups = 100 if options.quick else 1000
    for kind in steady.KINDS:
        found = steady.measure(kind, groups, seconds)
        what = f"{groups:,} groups of {steady.MEMBERS}, {kind} protocol, {seconds / 60:g} minutes"
        yield Row(f"{what}: cores, three brokers together", found.core, "", CORE_MAX)
        yield Row(f"{what}: rebalances", found.rebalances, "", 0)
        yield Row(f"{what}: heartbeats", found.heartbeats_per_s, "/s", None)
        yield Row(f"{what}: longest heartbeat response", found.longest_ms, "ms", None)


def _large(options: argparse.Namespace) -> Iterator[Row]:
    members = 50 if options.quick else 500
    seconds, interval_s = large_group.measure(members)
    yield Row(f"a group of {members}, consumer protocol: time until assigned", seconds, "s", INTERVALS_MAX * interval_s)


def _reload(options: argparse.Namespace) -> Iterator[Row]:
    offsets = 10_000 if options.quick else 100_000
    yield Row(f"{offsets:,} offsets available after kill -9", reload.measure(offsets), "s", RELOAD_S_MAX)


def _rolling(_: argparse.Namespace) -> Iterator[Row]:
    rolled = rolling_restart.measure()
    yield Row("rolling restart: longest stop of a group", rolled.longest_stop_s, "s", STOP_S_MAX)
    yield Row("rolling restart: partitions that changed owners", rolled.changes, "", 0)


_PARTS: dict[str, Callable[[argparse.Namespace], Iterator[Row]]] = {
    "steady": _steady,
    "large": _large,
    "reload": _reload,
    "rolling": _rolling,
}


def _text(row: Row) -> str:
    return f"{number(row.value)} {row.unit}".rstrip()


def _target(row: Row) -> str:
    return "" if row.limit is None else f"≤ {row.limit:g} {row.unit}".rstrip()


def _verdict(row: Row) -> str:
    return "" if row.limit is None else "met" if row.is_met else "**missed**"


def _table(rows: list[Row]) -> Table:
    table = Table(title="Groups on three brokers")
    for title in ("measure", "Odradek", "target", ""):
        table.add_column(title, justify="left" if title == "measure" else "right")
    for row in rows:
        table.add_row(row.title, _text(row), _target(row), "" if row.limit is None else "✓" if row.is_met else "✗")
    return table


_SECTION = """
Three combined nodes on one computer, three replicas of the internal topics, default group configuration;
{cores} cores, {memory}, Python {python}. Commit {commit}. `make bench-groups ARGS=--docs` writes this section.

| measure | Odradek | target | |
|---|---:|---:|---|
{rows}

- A member is a connection that joins and sends heartbeats, every 3 s in the classic protocol and every 5 s in the
  consumer protocol; all members run in one process. CPU time is the total of the brokers. A rebalance is any rejoin or
  change of a member's epoch or partitions while no member joins or leaves.
- The members of the large group join at the same time; the topic has two partitions per member. A member acknowledges
  new partitions at once and otherwise sends one heartbeat per interval. The group is assigned when every partition has
  one owner and every member has two partitions; the target is three intervals.
- The offsets belong to groups of one coordinator, a thousand each. The time is from kill -9 of its broker until its
  successor responds, after it has loaded all of them; it includes the election. Then every offset is fetched and
  compared.
- Rolling restart: each broker is stopped cleanly and restarted, the next one when all replicas are in sync. Two groups
  of three confluent-kafka consumers read six partitions with a record every 5 ms. A group's stop is the longest time in
  which a partition delivers no record to any member, for whatever reason.
"""


if __name__ == "__main__":
    sys.exit(main())

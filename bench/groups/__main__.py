"""`python -m bench.groups`: a thousand groups, a large one, and groups whose brokers go."""

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
    most: float | None
    """None: only told."""

    @property
    def is_met(self) -> bool:
        return self.most is None or self.value <= self.most


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
        cells = "\n".join(f"| {row.title} | {_text(row)} | {_bar(row)} | {_verdict(row)} |" for row in rows)
        replace_section(PAGE, MANY_GROUPS_SECTION, _SECTION.format(rows=cells, **describe_machine()))
    return 0 if all(row.is_met for row in rows) else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.groups", description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"of heartbeats; {MINUTES:g} unless said")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_SECONDS:g} s of heartbeats, and smaller numbers")
    parser.add_argument("--only", choices=PARTS, nargs="+", help="some of the parts instead of all")
    parser.add_argument("--docs", action="store_true", help="write the section of docs/benchmarks.md")
    return parser.parse_args()


def _steady(options: argparse.Namespace) -> Iterator[Row]:
    seconds = QUICK_SECONDS if options.quick else options.minutes * 60
    groups = 100 if options.quick else 1000
    for kind in steady.KINDS:
        found = steady.measure(kind, groups, seconds)
        what = f"{groups:,} groups of {steady.MEMBERS}, {kind} protocol, {seconds / 60:g} minutes"
        yield Row(f"{what}: a core, of the three brokers together", found.core, "", CORE_MAX)
        yield Row(f"{what}: rebalances", found.rebalances, "", 0)
        yield Row(f"{what}: heartbeats", found.heartbeats_per_s, "/s", None)
        yield Row(f"{what}: longest answer to a heartbeat", found.longest_ms, "ms", None)


def _large(options: argparse.Namespace) -> Iterator[Row]:
    members = 50 if options.quick else 500
    seconds, interval_s = large_group.measure(members)
    yield Row(f"a group of {members}, consumer protocol: all assigned after", seconds, "s", INTERVALS_MAX * interval_s)


def _reload(options: argparse.Namespace) -> Iterator[Row]:
    offsets = 10_000 if options.quick else 100_000
    yield Row(f"{offsets:,} offsets served after kill -9", reload.measure(offsets), "s", RELOAD_S_MAX)


def _rolling(_: argparse.Namespace) -> Iterator[Row]:
    rolled = rolling_restart.measure()
    yield Row("all brokers restarted in turn: longest stop of a group", rolled.longest_stop_s, "s", STOP_S_MAX)
    yield Row("all brokers restarted in turn: partitions that changed hands", rolled.changes, "", 0)


_PARTS: dict[str, Callable[[argparse.Namespace], Iterator[Row]]] = {
    "steady": _steady,
    "large": _large,
    "reload": _reload,
    "rolling": _rolling,
}


def _text(row: Row) -> str:
    return f"{number(row.value)} {row.unit}".rstrip()


def _bar(row: Row) -> str:
    return "" if row.most is None else f"≤ {row.most:g} {row.unit}".rstrip()


def _verdict(row: Row) -> str:
    return "" if row.most is None else "met" if row.is_met else "**missed**"


def _table(rows: list[Row]) -> Table:
    table = Table(title="Groups on three brokers")
    for title in ("measure", "Odradek", "bar", ""):
        table.add_column(title, justify="left" if title == "measure" else "right")
    for row in rows:
        table.add_row(row.title, _text(row), _bar(row), "" if row.most is None else "✓" if row.is_met else "✗")
    return table


_SECTION = """
Three combined nodes on one machine, three replicas of the internal topics, and of groups everything at its default;
{cores} cores, {memory}, Python {python}. Commit {commit}. This section is written by `make bench-groups ARGS=--docs`.

| measure | Odradek | bar | |
|---|---:|---:|---|
{rows}

- A member is a connection of its own that joins and sends heartbeats, every 3 s by the classic protocol and every 5 s
  by the new one; all are in one process. The brokers' processor time is all they use, heartbeats or not. A rebalance is
  whatever makes a member join again, or changes its epoch or its partitions, while nobody comes or goes.
- The large group's members come all at once, to a topic with two partitions for each. One that is given partitions says
  at once that it has them; otherwise it speaks once an interval. Assigned is when every partition has one owner and
  every member two partitions; the bar is three intervals.
- The offsets are those of groups that one coordinator has, a thousand each. The time is from kill -9 of its broker
  until its successor answers, which it does when it has loaded all of them: the election is part of it. Then every
  offset is fetched and compared.
- Rolling restart: each broker is stopped cleanly and started again, the next one when all replicas are in sync. Two
  groups of three confluent-kafka consumers read six partitions that are written to every 5 ms. A group's stop is the
  longest time in which some partition brings no member a record, for whatever reason.
"""


if __name__ == "__main__":
    sys.exit(main())

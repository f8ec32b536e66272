"""The same rows through Spark in several ways, in turns in one session, beside Spark's own connector at its best.

Odradek's broker and Apache Kafka's both run all the time; whichever serves the connector better is what the others are
measured by. The first round warms up.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from bench.page import PAGE, replace_section
from bench.products import KAFKA, ODRADEK, TITLES, data_directory, find_kafka, wide_console
from bench.report import number
from bench.results import RESULTS, describe_machine
from examples.runtime.jars import connector_jars, jars_directory
from examples.runtime.session import spark_session
from tests.kafka.apache_kafka import PRODUCTION_BROKER_FLAGS, ApacheKafka
from tests.node_process import NodeProcess
from tests.odradek_process import OdradekProcess
from tests.processor_time import processor_seconds

ROUNDS = 5
CONNECTOR = "kafka"
"""What Spark's own connector is called there."""


@dataclass(frozen=True)
class Way:
    """`bar` is how many times as fast as the connector it should be."""

    name: str
    source: str
    broker: str = ODRADEK
    options: Mapping[str, str] = field(default_factory=dict)
    bar: float | None = None


class Cost(NamedTuple):
    """Processor time is that of Spark with its Python workers, the brokers' not counted."""

    seconds: float
    cpu_seconds: float


class Scale(NamedTuple):
    rows: int
    rounds: int
    writes_docs: bool


@dataclass(frozen=True)
class Contest:
    """`prepare` is given a broker's address; `take` goes one of the ways, with all rows, at such a broker."""

    name: str
    noun: str
    scale: Scale
    ways: Sequence[Way]
    prepare: Callable[[str], None]
    take: Callable[[SparkSession, str, Way], None]
    section: str
    text: str
    properties: Mapping[str, str] = field(default_factory=dict)
    odradek_properties: Mapping[str, str] = field(default_factory=dict)

    def connector_ways(self) -> list[Way]:
        return [way for way in self.ways if way.source == CONNECTOR]


def parse_scale(program: str, description: str | None, *, rows: int, quick_rows: int, noun: str) -> Scale:
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("--quick", action="store_true", help=f"only {quick_rows:,} {noun}")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--docs", action="store_true", help="write the section of docs/benchmarks.md")
    options = parser.parse_args()
    return Scale(quick_rows if options.quick else rows, options.rounds, options.docs)


def compare(contest: Contest) -> int:
    """0 where every bar is met."""
    console = wide_console()
    libs = find_kafka(console)
    if libs is None:
        return 2
    costs = _measure(contest, libs, console)
    RESULTS.mkdir(exist_ok=True)
    values = {contest.noun: contest.scale.rows, "ways": [asdict(way) for way in contest.ways], "costs": costs}
    (RESULTS / f"{contest.name}.json").write_text(json.dumps(values, indent=2) + "\n")
    titles, rows = _titles(contest), list(_rows(contest, costs))
    table = Table(*titles)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    if contest.scale.writes_docs:
        lines = [titles, ["---"] + ["---:"] * (len(titles) - 1), *rows]
        filled = {
            "table": "\n".join(f"| {' | '.join(line)} |" for line in lines),
            "rows": f"{contest.scale.rows:,}",
            "rounds": contest.scale.rounds,
            **describe_machine(),
        }
        replace_section(PAGE, contest.section, contest.text.format(**filled))
    return 0 if all(_meets(contest, costs, way) for way in contest.ways) else 1


def _measure(contest: Contest, libs: Path, console: Console) -> dict[str, list[Cost]]:
    costs: dict[str, list[Cost]] = {way.name: [] for way in contest.ways}
    with ExitStack() as stack:
        directory = stack.enter_context(data_directory(contest.name))
        status = stack.enter_context(console.status("starting"))
        of_odradek = {**contest.properties, **contest.odradek_properties}
        brokers: dict[str, NodeProcess] = {
            KAFKA: ApacheKafka(libs, directory / KAFKA, properties=contest.properties, flags=PRODUCTION_BROKER_FLAGS),
            ODRADEK: OdradekProcess(directory / ODRADEK, properties=of_odradek),
        }
        for broker in brokers.values():
            stack.callback(broker.remove)
            broker.start()
            status.update(f"preparing {contest.scale.rows:,} {contest.noun}, {TITLES[broker.name]}")
            contest.prepare(broker.bootstrap)
        jars = connector_jars(jars_directory(), on_fetch=lambda jar: None)
        spark = stack.enter_context(
            spark_session("bench", jars, directory / "spark", directory / "spark.log", is_short=False)
        )
        for taken in range(contest.scale.rounds + 1):
            for way in contest.ways:
                status.update(f"round {taken} of {contest.scale.rounds}, {way.name}")
                with _measured([broker.pid for broker in brokers.values()]) as cost:
                    contest.take(spark, brokers[way.broker].bootstrap, way)
                if taken:
                    costs[way.name] += cost
    return costs


@contextmanager
def _measured(brokers: Sequence[int]) -> Iterator[list[Cost]]:
    """Filled in at the end."""
    cost: list[Cost] = []
    begun_s, begun_cpu_s = time.perf_counter(), processor_seconds(*brokers)
    yield cost
    cost.append(Cost(time.perf_counter() - begun_s, processor_seconds(*brokers) - begun_cpu_s))


def _meets(contest: Contest, costs: Mapping[str, list[Cost]], way: Way) -> bool:
    return way.bar is None or _ratio(contest, costs, way) >= way.bar


def _ratio(contest: Contest, costs: Mapping[str, list[Cost]], way: Way) -> float:
    usual = min(_median(costs[one.name]).seconds for one in contest.connector_ways())
    return usual / _median(costs[way.name]).seconds


def _titles(contest: Contest) -> list[str]:
    return ["", f"{contest.noun}/s", "lowest, highest", f"{contest.noun}/s of processor time", "ratio", "bar", ""]


def _rows(contest: Contest, costs: Mapping[str, list[Cost]]) -> Iterator[list[str]]:
    count = contest.scale.rows
    for way in contest.ways:
        taken = costs[way.name]
        median = _median(taken)
        slowest, fastest = (pick(one.seconds for one in taken) for pick in (max, min))
        yield [
            way.name,
            number(count / median.seconds),
            f"{number(count / slowest)}–{number(count / fastest)}",
            number(count / median.cpu_seconds),
            f"{_ratio(contest, costs, way):.2f} ×",
            "" if way.bar is None else f"≥ {way.bar:g} ×",
            "" if way.bar is None else "met" if _meets(contest, costs, way) else "**missed**",
        ]


def _median(costs: list[Cost]) -> Cost:
    return Cost(statistics.median(one.seconds for one in costs), statistics.median(one.cpu_seconds for one in costs))

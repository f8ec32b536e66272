"""Compares variants of reading or writing the same rows with Spark, in turn in one session.

Brokers of Odradek and Apache Kafka both run the whole time. Ratios refer to Spark's own connector on the broker that is
faster for it. The first round is a warm-up.
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
"""The format name of Spark's own connector."""


@dataclass(frozen=True)
class Variant:
    """`target` is the ratio to the connector's speed that the variant has to reach."""

    name: str
    source: str
    broker: str = ODRADEK
    options: Mapping[str, str] = field(default_factory=dict)
    target: float | None = None


class Cost(NamedTuple):
    """`cpu_seconds` is the CPU time of Spark and its Python workers, without the brokers."""

    seconds: float
    cpu_seconds: float


class Scale(NamedTuple):
    rows: int
    rounds: int
    writes_docs: bool


@dataclass(frozen=True)
class Comparison:
    """`prepare` gets a broker's address; `run` processes all rows with one variant on a broker."""

    name: str
    noun: str
    scale: Scale
    variants: Sequence[Variant]
    prepare: Callable[[str], None]
    run: Callable[[SparkSession, str, Variant], None]
    section: str
    text: str
    properties: Mapping[str, str] = field(default_factory=dict)
    odradek_properties: Mapping[str, str] = field(default_factory=dict)

    def connector_variants(self) -> list[Variant]:
        return [variant for variant in self.variants if variant.source == CONNECTOR]


def parse_scale(program: str, description: str | None, *, rows: int, quick_rows: int, noun: str) -> Scale:
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("--quick", action="store_true", help=f"only {quick_rows:,} {noun}")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--docs", action="store_true", help="write the section of docs/benchmarks.md")
    options = parser.parse_args()
    return Scale(quick_rows if options.quick else rows, options.rounds, options.docs)


def compare(comparison: Comparison) -> int:
    """Returns 0 if every target is met."""
    console = wide_console()
    libs = find_kafka(console)
    if libs is None:
        return 2
    costs = _measure(comparison, libs, console)
    RESULTS.mkdir(exist_ok=True)
    values = {
        comparison.noun: comparison.scale.rows,
        "variants": [asdict(variant) for variant in comparison.variants],
        "costs": costs,
    }
    (RESULTS / f"{comparison.name}.json").write_text(json.dumps(values, indent=2) + "\n")
    titles, rows = _titles(comparison), list(_rows(comparison, costs))
    table = Table(*titles)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    if comparison.scale.writes_docs:
        lines = [titles, ["---"] + ["---:"] * (len(titles) - 1), *rows]
        fields = {
            "table": "\n".join(f"| {' | '.join(connection)} |" for connection in lines),
            "rows": f"{comparison.scale.rows:,}",
            "rounds": comparison.scale.rounds,
            **describe_machine(),
        }
        replace_section(PAGE, comparison.section, comparison.text.format(**fields))
    return 0 if all(_meets(comparison, costs, variant) for variant in comparison.variants) else 1


def _measure(comparison: Comparison, libs: Path, console: Console) -> dict[str, list[Cost]]:
    costs: dict[str, list[Cost]] = {variant.name: [] for variant in comparison.variants}
    with ExitStack() as stack:
        directory = stack.enter_context(data_directory(comparison.name))
        status = stack.enter_context(console.status("starting"))
        of_odradek = {**comparison.properties, **comparison.odradek_properties}
        brokers: dict[str, NodeProcess] = {
            KAFKA: ApacheKafka(
                libs, directory / KAFKA, properties=comparison.properties, flags=PRODUCTION_BROKER_FLAGS
            ),
            ODRADEK: OdradekProcess(directory / ODRADEK, properties=of_odradek),
        }
        for broker in brokers.values():
            stack.callback(broker.remove)
            broker.start()
            status.update(f"preparing {comparison.scale.rows:,} {comparison.noun}, {TITLES[broker.name]}")
            comparison.prepare(broker.bootstrap)
        jars = connector_jars(jars_directory(), on_fetch=lambda jar: None)
        spark = stack.enter_context(
            spark_session("bench", jars, directory / "spark", directory / "spark.log", is_short=False)
        )
        for taken in range(comparison.scale.rounds + 1):
            for variant in comparison.variants:
                status.update(f"round {taken} of {comparison.scale.rounds}, {variant.name}")
                with _measured([broker.pid for broker in brokers.values()]) as cost:
                    comparison.run(spark, brokers[variant.broker].bootstrap, variant)
                if taken:
                    costs[variant.name] += cost
    return costs


@contextmanager
def _measured(brokers: Sequence[int]) -> Iterator[list[Cost]]:
    """The list receives its value at the end."""
    cost: list[Cost] = []
    begun_s, begun_cpu_s = time.perf_counter(), processor_seconds(*brokers)
    yield cost
    cost.append(Cost(time.perf_counter() - begun_s, processor_seconds(*brokers) - begun_cpu_s))


def _meets(comparison: Comparison, costs: Mapping[str, list[Cost]], variant: Variant) -> bool:
    return variant.target is None or _ratio(comparison, costs, variant) >= variant.target


def _ratio(comparison: Comparison, costs: Mapping[str, list[Cost]], variant: Variant) -> float:
    usual = min(_median(costs[one.name]).seconds for one in comparison.connector_variants())
    return usual / _median(costs[variant.name]).seconds


def _titles(comparison: Comparison) -> list[str]:
    return ["", f"{comparison.noun}/s", "lowest, highest", f"{comparison.noun}/s of CPU time", "ratio", "target", ""]


def _rows(comparison: Comparison, costs: Mapping[str, list[Cost]]) -> Iterator[list[str]]:
    count = comparison.scale.rows
    for variant in comparison.variants:
        taken = costs[variant.name]
        median = _median(taken)
        slowest, fastest = (pick(one.seconds for one in taken) for pick in (max, min))
        yield [
            variant.name,
            number(count / median.seconds),
            f"{number(count / slowest)}–{number(count / fastest)}",
            number(count / median.cpu_seconds),
            f"{_ratio(comparison, costs, variant):.2f} ×",
            "" if variant.target is None else f"≥ {variant.target:g} ×",
            "" if variant.target is None else "met" if _meets(comparison, costs, variant) else "**missed**",
        ]


def _median(costs: list[Cost]) -> Cost:
    return Cost(statistics.median(one.seconds for one in costs), statistics.median(one.cpu_seconds for one in costs))

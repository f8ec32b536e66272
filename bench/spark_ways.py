"""The same rows through Spark in several ways, in turns in one session on one Odradek broker, beside the first of them.

The first round warms up. Processor time is that of Spark with its Python workers, the broker's not counted.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession
from rich.table import Table

from bench.products import wide_console
from bench.report import number
from bench.results import RESULTS
from pipelines.runtime.jars import connector_jars, jars_directory
from pipelines.runtime.session import spark_session
from tests.odradek_process import OdradekProcess
from tests.processor_time import processor_seconds

ROUNDS = 5

Ways = Mapping[str, tuple[str, Mapping[str, str]]]
"""The format and its options, by what a way is called."""


class Cost(NamedTuple):
    seconds: float
    cpu_seconds: float


class Scale(NamedTuple):
    rows: int
    rounds: int


def parse_scale(program: str, description: str | None, *, rows: int, quick_rows: int, noun: str) -> Scale:
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("--quick", action="store_true", help=f"only {quick_rows:,} {noun}")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    return Scale(quick_rows if options.quick else rows, options.rounds)


def compare(
    name: str,
    scale: Scale,
    ways: Sequence[str],
    *,
    noun: str,
    properties: Mapping[str, str],
    prepare: Callable[[str], None],
    take: Callable[[SparkSession, OdradekProcess, str], None],
) -> None:
    """`prepare` is given the broker's address; `take` goes one of the ways with all rows."""
    console = wide_console()
    costs: dict[str, list[Cost]] = {way: [] for way in ways}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"bench-{name}-")))
        status = stack.enter_context(console.status("starting"))
        broker = OdradekProcess(directory / "node", properties=properties)
        stack.callback(broker.remove)
        broker.start()
        status.update(f"preparing {scale.rows:,} {noun}")
        prepare(broker.bootstrap)
        jars = connector_jars(jars_directory(), on_fetch=lambda jar: None)
        spark = stack.enter_context(
            spark_session("bench", jars, directory / "spark", directory / "spark.log", is_short=False)
        )
        for taken in range(scale.rounds + 1):
            for way in ways:
                status.update(f"round {taken} of {scale.rounds}, {way}")
                with _measured(broker) as cost:
                    take(spark, broker, way)
                if taken:
                    costs[way] += cost
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps({noun: scale.rows, "costs": costs}, indent=2) + "\n")
    console.print(_table(scale.rows, costs))


@contextmanager
def _measured(broker: OdradekProcess) -> Iterator[list[Cost]]:
    """Filled in at the end."""
    cost: list[Cost] = []
    begun_s, begun_cpu_s = time.perf_counter(), processor_seconds(broker.pid)
    yield cost
    cost.append(Cost(time.perf_counter() - begun_s, processor_seconds(broker.pid) - begun_cpu_s))


def _table(rows: int, costs: Mapping[str, list[Cost]]) -> Table:
    table = Table("", "rows/s", "rows/s of processor time", "beside the connector")
    medians = {way: _median(taken) for way, taken in costs.items()}
    usual = next(iter(medians.values()))
    for way, median in medians.items():
        table.add_row(
            way,
            number(rows / median.seconds),
            number(rows / median.cpu_seconds),
            f"{usual.seconds / median.seconds:.2f} (processor time {usual.cpu_seconds / median.cpu_seconds:.2f})",
        )
    return table


def _median(costs: list[Cost]) -> Cost:
    return Cost(statistics.median(one.seconds for one in costs), statistics.median(one.cpu_seconds for one in costs))

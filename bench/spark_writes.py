"""`python -m bench.spark_writes`: Spark writing a topic through its own Kafka connector, at least once, and
through `format("odradek")`, at least once and exactly once.

Rows of a hundred bytes with keys, two tasks, four partitions, in turns in one session on one Odradek broker. The first
round warms up. Processor time is that of Spark with its Python workers, the broker's not counted.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from pyspark.sql import SparkSession
from rich.table import Table

from bench.products import wide_console
from bench.report import number
from bench.results import RESULTS
from bench.spark_rows import Cost, median_cost, processor_seconds
from odradek.client.address import parse_bootstrap
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from pipelines.runtime.jars import connector_jars, jars_directory
from pipelines.runtime.session import spark_session
from tests.odradek_process import OdradekProcess

ROWS = 4_000_000
QUICK_ROWS = 400_000
ROUNDS = 5
TOPIC = "rows"
TASKS = 2
PARTITIONS = 4
VALUE_BYTES = 80

WAYS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "kafka, at least once": ("kafka", {}),
    "odradek, at least once": ("odradek", {}),
    "odradek, exactly once": ("odradek", {"kafka.transactional.id": "bench"}),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.spark_writes", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"only {QUICK_ROWS:,} rows")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    rows = QUICK_ROWS if options.quick else ROWS
    console = wide_console()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-spark-writes-")))
        status = stack.enter_context(console.status("starting"))
        broker = OdradekProcess(directory / "node", properties={"transaction.two.phase.commit.enable": "true"})
        stack.callback(broker.remove)
        broker.start()
        with Cluster(parse_bootstrap(broker.bootstrap)) as cluster:
            Admin(cluster).create_topic(TOPIC, partitions=PARTITIONS, replication_factor=1)
        jars = connector_jars(jars_directory(), on_fetch=lambda jar: None)
        spark = stack.enter_context(
            spark_session("bench", jars, directory / "spark", directory / "spark.log", is_short=False)
        )
        costs: dict[str, list[Cost]] = {way: [] for way in WAYS}
        for taken in range(options.rounds + 1):
            for way in WAYS:
                status.update(f"round {taken} of {options.rounds}, {way}")
                cost = write(spark, broker, way, rows)
                if taken:
                    costs[way].append(cost)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "spark-writes.json").write_text(json.dumps({"rows": rows, "costs": costs}, indent=2) + "\n")
    table = Table("", "rows/s", "rows/s of processor time", "beside the connector")
    usual = median_cost(next(iter(costs.values())))
    for way, taken_costs in costs.items():
        median = median_cost(taken_costs)
        table.add_row(
            way,
            number(rows / median.seconds),
            number(rows / median.cpu_seconds),
            f"{usual.seconds / median.seconds:.2f} (processor time {usual.cpu_seconds / median.cpu_seconds:.2f})",
        )
    console.print(table)
    return 0


def write(spark: SparkSession, broker: OdradekProcess, way: str, rows: int) -> Cost:
    sink, options = WAYS[way]
    begun_s, begun_cpu_s = time.perf_counter(), processor_seconds(broker.pid)
    (
        spark.range(0, rows, 1, TASKS)
        .selectExpr("cast(id as string) as key", f"repeat('x', {VALUE_BYTES}) as value")
        .write.format(sink)
        .options(**{"kafka.bootstrap.servers": broker.bootstrap, "topic": TOPIC}, **options)
        .mode("append")
        .save()
    )
    return Cost(time.perf_counter() - begun_s, processor_seconds(broker.pid) - begun_cpu_s)


if __name__ == "__main__":
    sys.exit(main())

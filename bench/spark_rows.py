"""`python -m bench.spark_rows`: Spark reading a topic through `format("odradek")` and through its own Kafka connector.

One partition, records of a hundred bytes, `sum(length(value)), count(*)`, both with `minPartitions=2`, in turns in one
session on one Odradek broker. The first round warms up. Processor time is that of Spark with its Python workers, the
broker's not counted. `--quick` takes a tenth of the records.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from pyspark.sql import SparkSession
from rich.table import Table

from bench.products import wide_console
from bench.report import number
from bench.results import RESULTS
from odradek.client.address import parse_bootstrap
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from pipelines.runtime.jars import connector_jars, jars_directory
from pipelines.runtime.session import spark_session
from tests.odradek_process import OdradekProcess

RECORDS = 4_000_000
QUICK_RECORDS = 400_000
ROUNDS = 5
TOPIC = "rows"
KEY, VALUE = b"12345678", b"x" * 80

WAYS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "kafka": ("kafka", {}),
    "odradek": ("odradek", {}),
    "odradek, columns=value": ("odradek", {"columns": "value"}),
}


class Cost(NamedTuple):
    seconds: float
    cpu_seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.spark_rows", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"only {QUICK_RECORDS:,} records")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    records = QUICK_RECORDS if options.quick else RECORDS
    console = wide_console()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-spark-rows-")))
        status = stack.enter_context(console.status("starting"))
        broker = OdradekProcess(directory / "node")
        stack.callback(broker.remove)
        broker.start()
        status.update(f"producing {records:,} records")
        produce(broker.bootstrap, records)
        jars = connector_jars(jars_directory(), on_fetch=lambda jar: None)
        spark = stack.enter_context(
            spark_session("bench", jars, directory / "spark", directory / "spark.log", is_short=False)
        )
        costs: dict[str, list[Cost]] = {way: [] for way in WAYS}
        for taken in range(options.rounds + 1):
            for way in WAYS:
                status.update(f"round {taken} of {options.rounds}, {way}")
                cost = read(spark, broker, way, records)
                if taken:
                    costs[way].append(cost)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "spark-rows.json").write_text(json.dumps({"records": records, "costs": costs}, indent=2) + "\n")
    table = Table("", "rows/s", "rows/s of processor time", "beside the connector")
    usual = median_cost(costs["kafka"])
    for way, taken_costs in costs.items():
        median = median_cost(taken_costs)
        table.add_row(
            way,
            number(records / median.seconds),
            number(records / median.cpu_seconds),
            f"{usual.seconds / median.seconds:.2f} (processor time {usual.cpu_seconds / median.cpu_seconds:.2f})",
        )
    console.print(table)
    return 0


def median_cost(costs: list[Cost]) -> Cost:
    return Cost(statistics.median(one.seconds for one in costs), statistics.median(one.cpu_seconds for one in costs))


def produce(bootstrap: str, records: int) -> None:
    with Cluster(parse_bootstrap(bootstrap)) as cluster:
        Admin(cluster).create_topic(TOPIC, partitions=1, replication_factor=1)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 500_000})
    for position in range(records):
        while True:
            try:
                producer.produce(TOPIC, VALUE, KEY)
                break
            except BufferError:
                producer.poll(0.1)
        if position % 1000 == 0:
            producer.poll(0)
    if producer.flush(120):
        raise SystemExit("the broker did not take all records")


def read(spark: SparkSession, broker: OdradekProcess, way: str, records: int) -> Cost:
    source, options = WAYS[way]
    begun_s, begun_cpu_s = time.perf_counter(), processor_seconds(broker.pid)
    rows = (
        spark.read.format(source)
        .options(**{"kafka.bootstrap.servers": broker.bootstrap, "subscribe": TOPIC, "minPartitions": "2"}, **options)
        .load()
        .selectExpr("sum(length(value))", "count(*)")
        .collect()
    )
    cost = Cost(time.perf_counter() - begun_s, processor_seconds(broker.pid) - begun_cpu_s)
    assert tuple(rows[0]) == (records * len(VALUE), records)
    return cost


def processor_seconds(leaving_out: int) -> float:
    """Of this process and all below it."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        process = int(file.parent.name)
        parents[process] = int(fields[1])
        # Its own and those of children that have ended.
        ticks[process] = sum(map(int, fields[11:15]))
    total = 0
    for process in parents:
        above = process
        while above not in (os.getpid(), leaving_out, 0):
            above = parents.get(above, 0)
        if above == os.getpid():
            total += ticks[process]
    return total / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())

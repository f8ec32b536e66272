"""`python -m bench.spark_writes`: Spark writing a topic through its own Kafka connector, at least once, and
through `format("odradek")`, at least once and exactly once.

Rows of a hundred bytes with keys, two tasks, four partitions.
"""

import sys

from pyspark.sql import SparkSession

from bench.spark_ways import Ways, compare, parse_scale
from odradek.client.address import parse_bootstrap
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from tests.odradek_process import OdradekProcess

ROWS = 4_000_000
QUICK_ROWS = 400_000
TOPIC = "rows"
TASKS = 2
PARTITIONS = 4
VALUE_BYTES = 80

WAYS: Ways = {
    "kafka, at least once": ("kafka", {}),
    "odradek, at least once": ("odradek", {}),
    "odradek, exactly once": ("odradek", {"kafka.transactional.id": "bench"}),
}


def main() -> int:
    scale = parse_scale("bench.spark_writes", __doc__, rows=ROWS, quick_rows=QUICK_ROWS, noun="rows")
    compare(
        "spark-writes",
        scale,
        list(WAYS),
        noun="rows",
        properties={"transaction.two.phase.commit.enable": "true"},
        prepare=create_topic,
        take=lambda spark, broker, way: write(spark, broker, way, scale.rows),
    )
    return 0


def create_topic(bootstrap: str) -> None:
    with Cluster(parse_bootstrap(bootstrap)) as cluster:
        Admin(cluster).create_topic(TOPIC, partitions=PARTITIONS, replication_factor=1)


def write(spark: SparkSession, broker: OdradekProcess, way: str, rows: int) -> None:
    sink, options = WAYS[way]
    (
        spark.range(0, rows, 1, TASKS)
        .selectExpr("cast(id as string) as key", f"repeat('x', {VALUE_BYTES}) as value")
        .write.format(sink)
        .options(**{"kafka.bootstrap.servers": broker.bootstrap, "topic": TOPIC}, **options)
        .mode("append")
        .save()
    )


if __name__ == "__main__":
    sys.exit(main())

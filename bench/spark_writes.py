"""`python -m bench.spark_writes`: Spark writing a topic through its own Kafka connector, at least once, and
through `format("odradek")`, at least once and exactly once.

Rows of a hundred bytes with keys, two tasks, four partitions.
"""

import sys

from pyspark.sql import SparkSession

from bench.page import SPARK_WRITES_SECTION
from bench.products import KAFKA
from bench.spark_ways import CONNECTOR, Contest, Way, compare, parse_scale
from odradek.client.address import parse_bootstrap
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster

ROWS = 4_000_000
QUICK_ROWS = 400_000
TOPIC = "rows"
TASKS = 2
PARTITIONS = 4
VALUE_BYTES = 80
EXACTLY_ONCE = {"kafka.transactional.id": "bench"}

WAYS = (
    Way("the connector, at least once, to Apache Kafka", CONNECTOR, KAFKA),
    Way("the connector, at least once, to Odradek", CONNECTOR),
    Way("odradek, at least once", "odradek"),
    Way("odradek, exactly once", "odradek", options=EXACTLY_ONCE, bar=0.8),
    Way("odradek, exactly once, to Apache Kafka", "odradek", KAFKA, options=EXACTLY_ONCE),
)


def main() -> int:
    scale = parse_scale("bench.spark_writes", __doc__, rows=ROWS, quick_rows=QUICK_ROWS, noun="rows")
    return compare(
        Contest(
            name="spark-writes",
            noun="rows",
            scale=scale,
            ways=WAYS,
            odradek_properties={"transaction.two.phase.commit.enable": "true"},
            prepare=create_topic,
            take=lambda spark, bootstrap, way: write(spark, bootstrap, way, scale.rows),
            section=SPARK_WRITES_SECTION,
            text=_SECTION,
        )
    )


def create_topic(bootstrap: str) -> None:
    with Cluster(parse_bootstrap(bootstrap)) as cluster:
        Admin(cluster).create_topic(TOPIC, partitions=PARTITIONS, replication_factor=1)


def write(spark: SparkSession, bootstrap: str, way: Way, rows: int) -> None:
    (
        spark.range(0, rows, 1, TASKS)
        .selectExpr("cast(id as string) as key", f"repeat('x', {VALUE_BYTES}) as value")
        .write.format(way.source)
        .options(**{"kafka.bootstrap.servers": bootstrap, "topic": TOPIC}, **way.options)
        .mode("append")
        .save()
    )


_SECTION = """
{rows} rows of 100 bytes with keys, two tasks, four partitions; {cores} cores, {memory}, Python {python}, Java {java},
Apache Kafka {kafka} with a heap of 1 GiB and G1. Commit {commit}. Medians of {rounds} rounds after one that warms up,
all ways in turn in each. This section is written by `make bench-spark-writes ARGS=--docs`.

{table}

- Ratios are beside Spark's own connector at the broker that serves it better. Its sink is at least once, with no other
  choice.
- To Odradek exactly once is by two-phase commit; Apache Kafka's transactions have the longest timeout it allows.
- Processor time is that of Spark with its Python workers. Brokers share the cores with it.
"""

if __name__ == "__main__":
    sys.exit(main())

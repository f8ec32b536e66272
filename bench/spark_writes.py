"""Compares writing a topic with Spark's own Kafka connector (at-least-once) and `format("odradek")` (both semantics).

Rows of a hundred bytes with keys, two tasks, four partitions.
"""

import sys

from pyspark.sql import SparkSession

from bench.page import SPARK_WRITES_SECTION
from bench.products import KAFKA
from bench.spark_comparison import CONNECTOR, Comparison, Variant, compare, parse_scale
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

VARIANTS = (
    Variant("the connector, at least once, to Apache Kafka", CONNECTOR, KAFKA),
    Variant("the connector, at least once, to Odradek", CONNECTOR),
    Variant("odradek, at least once", "odradek"),
    Variant("odradek, exactly once", "odradek", options=EXACTLY_ONCE, target=0.8),
    Variant("odradek, exactly once, to Apache Kafka", "odradek", KAFKA, options=EXACTLY_ONCE),
)


def main() -> int:
    scale = parse_scale("bench.spark_writes", __doc__, rows=ROWS, quick_rows=QUICK_ROWS, noun="rows")
    return compare(
        Comparison(
            name="spark-writes",
            noun="rows",
            scale=scale,
            variants=VARIANTS,
            odradek_properties={"transaction.two.phase.commit.enable": "true"},
            prepare=create_topic,
            run=lambda spark, bootstrap, variant: write(spark, bootstrap, variant, scale.rows),
            section=SPARK_WRITES_SECTION,
            text=_SECTION,
        )
    )


def create_topic(bootstrap: str) -> None:
    with Cluster(parse_bootstrap(bootstrap)) as cluster:
        Admin(cluster).create_topic(TOPIC, partitions=PARTITIONS, replication_factor=1)


def write(spark: SparkSession, bootstrap: str, variant: Variant, rows: int) -> None:
    (
        spark.range(0, rows, 1, TASKS)
        .selectExpr("cast(id as string) as key", f"repeat('x', {VALUE_BYTES}) as value")
        .write.format(variant.source)
        .options(**{"kafka.bootstrap.servers": bootstrap, "topic": TOPIC}, **variant.options)
        .mode("append")
        .save()
    )


_SECTION = """
{rows} rows of 100 bytes with keys, two tasks, four partitions; {cores} cores, {memory}, Python {python}, Java {java},
Apache Kafka {kafka} with a heap of 1 GiB and G1. Commit {commit}. Medians of {rounds} rounds after a warm-up; each
round runs all variants. `make bench-spark-writes ARGS=--docs` writes this section.

{table}

- Ratios refer to Spark's own connector on the broker that is faster for it. Its sink supports only at-least-once.
- Exactly-once on Odradek uses two-phase commit (KIP-939); on Apache Kafka, transactions have the longest allowed
  timeout.
- CPU time is that of Spark and its Python workers. The brokers share the cores with Spark.
"""

if __name__ == "__main__":
    sys.exit(main())

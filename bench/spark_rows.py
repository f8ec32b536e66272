"""Compares reading a topic with Spark through `format("odradek")` and through Spark's own Kafka connector.

One partition, records of a hundred bytes, `sum(length(value)), count(*)`, always with `minPartitions=2`. `--quick` uses
a tenth of the records.
"""

import sys

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from bench.page import SPARK_READS_SECTION
from bench.products import KAFKA
from bench.spark_comparison import CONNECTOR, Comparison, Variant, compare, parse_scale
from odradek.client.address import parse_bootstrap
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from tests.node_process import free_ports

RECORDS = 4_000_000
QUICK_RECORDS = 400_000
TOPIC = "rows"
KEY, VALUE = b"12345678", b"x" * 80
# Only closed segments are read from files: with the default of 1 GiB there would be none.
SEGMENT_BYTES = 32 * 1024 * 1024
PRINCIPAL, SECRET = "bench", "a-secret-of-the-benchmark"
FROM_FILES = {"leasePrincipal": PRINCIPAL, "leaseSecret": SECRET}

VARIANTS = (
    Variant("the connector, from Apache Kafka", CONNECTOR, KAFKA),
    Variant("the connector, from Odradek", CONNECTOR),
    Variant("odradek, from its broker", "odradek", target=1.0),
    Variant("odradek, from segments", "odradek", options=FROM_FILES, target=1.2),
    Variant("odradek, from segments, columns=value", "odradek", options={**FROM_FILES, "columns": "value"}, target=2.0),
    Variant("odradek, from Apache Kafka", "odradek", KAFKA),
)


def main() -> int:
    scale = parse_scale("bench.spark_rows", __doc__, rows=RECORDS, quick_rows=QUICK_RECORDS, noun="records")
    (http_port,) = free_ports(1)
    return compare(
        Comparison(
            name="spark-rows",
            noun="records",
            scale=scale,
            variants=VARIANTS,
            properties={"log.segment.bytes": str(SEGMENT_BYTES)},
            odradek_properties={"http.address": str(http_port)},
            prepare=lambda bootstrap: produce(bootstrap, scale.rows),
            run=lambda spark, bootstrap, variant: read(spark, bootstrap, variant, scale.rows),
            section=SPARK_READS_SECTION,
            text=_SECTION,
        )
    )


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
        raise SystemExit("the broker did not accept all records")


def read(spark: SparkSession, bootstrap: str, variant: Variant, records: int) -> None:
    rows = (
        spark.read.format(variant.source)
        .options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": TOPIC, "minPartitions": "2"}, **variant.options)
        .load()
        .selectExpr("sum(length(value))", "count(*)")
        .collect()
    )
    assert tuple(rows[0]) == (records * len(VALUE), records)


_SECTION = """
{rows} records of 100 bytes in one partition, `sum(length(value)), count(*)`, `minPartitions=2`; {cores} cores,
{memory}, Python {python}, Java {java}, Apache Kafka {kafka} with a heap of 1 GiB and G1. Commit {commit}. Medians of
{rounds} rounds after a warm-up; each round runs all variants. `make bench-spark ARGS=--docs` writes this section.

{table}

- Ratios refer to Spark's own connector on the broker that is faster for it.
- Segments have 32 MiB. "From segments" reads closed segments from files under leases, and the active segment (less than
  a twelfth of the records) from the broker.
- CPU time is that of Spark and its Python workers. The brokers share the cores with Spark.
"""

if __name__ == "__main__":
    sys.exit(main())

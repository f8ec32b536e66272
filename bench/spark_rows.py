"""`python -m bench.spark_rows`: Spark reading a topic through `format("odradek")` and through its own Kafka connector.

One partition, records of a hundred bytes, `sum(length(value)), count(*)`, all with `minPartitions=2`. `--quick` takes
a tenth of the records.
"""

import sys
import tempfile
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from bench.page import SPARK_READS_SECTION
from bench.products import KAFKA
from bench.spark_ways import CONNECTOR, Contest, Way, compare, parse_scale
from odradek.client.address import parse_bootstrap
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from tests.node_process import free_ports

RECORDS = 4_000_000
QUICK_RECORDS = 400_000
TOPIC = "rows"
KEY, VALUE = b"12345678", b"x" * 80
# Only closed segments can be read from the files: with segments of a gigabyte there would be none.
SEGMENT_BYTES = 32 * 1024 * 1024
PRINCIPAL, SECRET = "bench", "a-secret-of-the-benchmark"
FROM_FILES = {"leasePrincipal": PRINCIPAL, "leaseSecret": SECRET}

WAYS = (
    Way("the connector, from Apache Kafka", CONNECTOR, KAFKA),
    Way("the connector, from Odradek", CONNECTOR),
    Way("odradek, from its broker", "odradek", bar=1.0),
    Way("odradek, from segments", "odradek", options=FROM_FILES, bar=1.2),
    Way("odradek, from segments, columns=value", "odradek", options={**FROM_FILES, "columns": "value"}, bar=2.0),
    Way("odradek, from Apache Kafka", "odradek", KAFKA),
)


def main() -> int:
    scale = parse_scale("bench.spark_rows", __doc__, rows=RECORDS, quick_rows=QUICK_RECORDS, noun="records")
    with tempfile.NamedTemporaryFile("w", prefix="bench-leases-") as credentials:
        credentials.write(f"{PRINCIPAL} {SECRET} *\n")
        credentials.flush()
        (http_port,) = free_ports(1)
        return compare(
            Contest(
                name="spark-rows",
                noun="records",
                scale=scale,
                ways=WAYS,
                properties={"log.segment.bytes": str(SEGMENT_BYTES)},
                odradek_properties={
                    "http.address": str(http_port),
                    "segment.lease.credentials.file": str(Path(credentials.name)),
                },
                prepare=lambda bootstrap: produce(bootstrap, scale.rows),
                take=lambda spark, bootstrap, way: read(spark, bootstrap, way, scale.rows),
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
        raise SystemExit("the broker did not take all records")


def read(spark: SparkSession, bootstrap: str, way: Way, records: int) -> None:
    rows = (
        spark.read.format(way.source)
        .options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": TOPIC, "minPartitions": "2"}, **way.options)
        .load()
        .selectExpr("sum(length(value))", "count(*)")
        .collect()
    )
    assert tuple(rows[0]) == (records * len(VALUE), records)


_SECTION = """
{rows} records of 100 bytes in one partition, `sum(length(value)), count(*)`, `minPartitions=2`; {cores} cores,
{memory}, Python {python}, Java {java}, Apache Kafka {kafka} with a heap of 1 GiB and G1. Commit {commit}. Medians of
{rounds} rounds after one that warms up, all ways in turn in each. This section is written by
`make bench-spark ARGS=--docs`.

{table}

- Ratios are beside Spark's own connector at the broker that serves it better.
- Segments are of 32 MiB. From segments: closed ones are read from the files under leases, the active one, less than a
  twelfth of the records, from the broker.
- Processor time is that of Spark with its Python workers. Brokers share the cores with it.
"""

if __name__ == "__main__":
    sys.exit(main())

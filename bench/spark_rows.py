"""`python -m bench.spark_rows`: Spark reading a topic through `format("odradek")` and through its own Kafka connector.

One partition, records of a hundred bytes, `sum(length(value)), count(*)`, both with `minPartitions=2`. `--quick` takes
a tenth of the records.
"""

import sys

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from bench.spark_ways import Ways, compare, parse_scale
from odradek.client.address import parse_bootstrap
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from tests.odradek_process import OdradekProcess

RECORDS = 4_000_000
QUICK_RECORDS = 400_000
TOPIC = "rows"
KEY, VALUE = b"12345678", b"x" * 80

WAYS: Ways = {
    "kafka": ("kafka", {}),
    "odradek": ("odradek", {}),
    "odradek, columns=value": ("odradek", {"columns": "value"}),
}


def main() -> int:
    scale = parse_scale("bench.spark_rows", __doc__, rows=RECORDS, quick_rows=QUICK_RECORDS, noun="records")
    compare(
        "spark-rows",
        scale,
        list(WAYS),
        noun="records",
        properties={},
        prepare=lambda bootstrap: produce(bootstrap, scale.rows),
        take=lambda spark, broker, way: read(spark, broker, way, scale.rows),
    )
    return 0


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


def read(spark: SparkSession, broker: OdradekProcess, way: str, records: int) -> None:
    source, options = WAYS[way]
    rows = (
        spark.read.format(source)
        .options(**{"kafka.bootstrap.servers": broker.bootstrap, "subscribe": TOPIC, "minPartitions": "2"}, **options)
        .load()
        .selectExpr("sum(length(value))", "count(*)")
        .collect()
    )
    assert tuple(rows[0]) == (records * len(VALUE), records)


if __name__ == "__main__":
    sys.exit(main())

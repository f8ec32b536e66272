"""`format("odradek")` in a real Spark, beside Spark's own connector, on a real broker."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from examples.runtime.session import spark_session
from odradek.client.address import parse_bootstrap
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from odradek.client.groups import Groups
from tests.leasing_process import SPARK, LeasingProcess
from tests.metrics_scrape import scrape
from tests.node_process import NodeProcess
from tests.spark.slow_starts import run_to_the_end

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory, spark_jars: tuple[Path, ...]) -> Iterator[SparkSession]:
    directory = tmp_path_factory.mktemp("spark")
    with spark_session("data-source-test", spark_jars, directory / "work", directory / "spark.log") as session:
        yield session


@pytest.fixture(scope="module")
def orders(broker: NodeProcess, cluster: Cluster) -> str:
    """A topic with keys, nulls and headers, and records of an aborted transaction."""
    # The records are years old.
    Admin(cluster).create_topic("orders", partitions=3, replication_factor=1, configs={"retention.ms": "-1"})
    produce(broker, "orders", 3_000)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "orders"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("orders", b"aborted", partition=1)
    assert producer.flush(30) == 0
    producer.abort_transaction(30)
    return "orders"


def produce(broker: NodeProcess, topic: str, count: int, *, partition: int | None = None) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "compression.type": "zstd"})
    target = {} if partition is None else {"partition": partition}
    for number in range(count):
        producer.produce(
            topic,
            None if number % 13 == 0 else b"value-%d" % number,
            None if number % 7 == 0 else b"key-%d" % number,
            timestamp=1_700_000_000_000 + number,
            headers=[("a", b"1"), ("a", None)] if number % 3 == 0 else None,
            **target,
        )
    assert producer.flush(60) == 0


def load(spark: SparkSession, broker: NodeProcess, source: str, **options: str) -> DataFrame:
    return spark.read.format(source).option("kafka.bootstrap.servers", broker.bootstrap).options(**options).load()


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": "orders", "includeHeaders": "true", "kafka.isolation.level": "read_committed"},
        {
            "assign": '{"orders": [1, 2]}',
            "startingOffsets": '{"orders": {"1": 17, "2": -2}}',
            "endingOffsets": '{"orders": {"1": 400, "2": -1}}',
            "minPartitions": "5",
        },
        {"subscribePattern": "ord.*", "startingTimestamp": "1700000001500", "endingTimestamp": "1700000002500"},
    ],
    ids=["all", "offsets", "times"],
)
def test_rows_and_schema_are_the_connectors(
    spark: SparkSession, broker: NodeProcess, orders: str, options: dict[str, str]
) -> None:
    theirs = load(spark, broker, "kafka", **options)
    ours = load(spark, broker, "odradek", **options)

    assert ours.schema == theirs.schema
    found = in_order(ours)
    assert found == in_order(theirs)
    assert len(found) > 300


def test_columns_and_tasks(spark: SparkSession, broker: NodeProcess, orders: str) -> None:
    ours = load(spark, broker, "odradek", subscribe=orders, columns="value,offset", minPartitions="8")

    assert ours.columns == ["value", "offset"]
    # As many as of Spark's own connector: a partition's share of them is rounded.
    theirs = load(spark, broker, "kafka", subscribe=orders, minPartitions="8")
    assert ours.rdd.getNumPartitions() == theirs.rdd.getNumPartitions() > 3
    assert ours.selectExpr("count(*) as n").first() == Row(n=3_001)


@pytest.mark.tier("proof")
def test_invalid_input_is_reported(spark: SparkSession, broker: NodeProcess, orders: str) -> None:
    for options, said in (
        ({"subscribe": "ordres"}, "Topic 'ordres' does not exist"),
        ({"subscribe": orders, "startingOffsets": "newest"}, "is not valid JSON"),
        ({"subscribe": orders, "startingOffsets": '{"orders": {"0": 5}}'}, "Add orders-1, orders-2"),
    ):
        with pytest.raises(PySparkException, match=said):
            load(spark, broker, "odradek", **options).collect()


class Query:
    """A stream from one topic with a checkpoint; nothing is kept of it but that."""

    def __init__(self, spark: SparkSession, broker: NodeProcess, checkpoint: Path, **options: str) -> None:
        self._stream = (
            spark.readStream.format("odradek")
            .option("kafka.bootstrap.servers", broker.bootstrap)
            .options(columns="partition,offset", startingOffsets="earliest", **options)
            .load()
        )
        self._checkpoint = checkpoint

    def run(self) -> list[list[tuple[int, int]]]:
        """To the end of what there is; the offsets of every batch."""
        # By number: a query that is started again may begin with the batch that it ended with.
        found: dict[int, list[tuple[int, int]]] = {}

        def take(batch: DataFrame, number: int) -> None:
            found[number] = [(row.partition, row.offset) for row in batch.collect()]

        run_to_the_end(
            self._stream.writeStream.foreachBatch(take)
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(availableNow=True)
        )
        return list(found.values())


def test_a_stream_resumes_from_its_checkpoint(
    spark: SparkSession, broker: NodeProcess, cluster: Cluster, tmp_path: Path
) -> None:
    admin = Admin(cluster)
    admin.create_topic("stream", partitions=2, replication_factor=1, configs={"retention.ms": "-1"})
    produce(broker, "stream", 300, partition=0)
    produce(broker, "stream", 300, partition=1)

    def query(**options: str) -> Query:
        given = {"subscribe": "stream", "maxOffsetsPerTrigger": "400", "kafka.group.id": "mirror"} | options
        return Query(spark, broker, tmp_path / "checkpoint", **given)

    first = query().run()

    assert [len(batch) for batch in first] == [400, 200]
    assert offsets_of(first) == [(partition, offset) for partition in (0, 1) for offset in range(300)]

    admin.create_partitions("stream", 3)
    produce(broker, "stream", 50, partition=2)
    produce(broker, "stream", 10, partition=0)
    again = query().run()

    assert offsets_of(again) == [(0, offset) for offset in range(300, 310)] + [(2, n) for n in range(50)]
    committed = Groups(cluster).offsets(["mirror"])["mirror"]
    assert {one.partition: offset for one, offset in committed.items()} == {0: 310, 1: 300, 2: 50}

    admin.delete_topic("stream")
    admin.create_topic("stream", partitions=1, replication_factor=1, configs={"retention.ms": "-1"})
    produce(broker, "stream", 20, partition=0)
    with pytest.raises(PySparkException, match="was deleted and recreated"):
        query().run()
    assert offsets_of(query(failOnDataLoss="false").run()) == [(0, offset) for offset in range(20)]
    committed = Groups(cluster).offsets(["mirror"])["mirror"]
    assert {one.partition: offset for one, offset in committed.items()} == {0: 20}


def test_rows_are_written_where_the_connector_writes_them(
    spark: SparkSession, broker: NodeProcess, cluster: Cluster, tmp_path: Path
) -> None:
    for topic in ("theirs", "ours"):
        Admin(cluster).create_topic(topic, partitions=5, replication_factor=1)
    rows = spark.range(500).selectExpr(
        "concat('key-', id) as key",
        "if(id % 10 = 0, null, cast(concat('value-', id) as binary)) as value",
        "if(id % 4 = 0, 3, null) as partition",
        "if(id % 3 = 0, array(struct('a' as key, cast('1' as binary) as value)), null) as headers",
    )

    def written_by(source: str, topic: str) -> list[Any]:
        rows.write.format(source).option("kafka.bootstrap.servers", broker.bootstrap).option("topic", topic).option(
            "includeHeaders", "true"
        ).mode("append").save()
        found = load(spark, broker, "odradek", subscribe=topic, includeHeaders="true")
        found = found.selectExpr("key", "value", "partition", "headers", "timestamp > now() - interval 1 hour")
        return sorted(tuple(row) for row in found.collect())

    assert written_by("odradek", "ours") == written_by("kafka", "theirs")

    Admin(cluster).create_topic("copied", partitions=2, replication_factor=1)
    stream = (
        spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .options(subscribe="ours", startingOffsets="earliest", columns="key,value")
        .load()
        .writeStream.format("odradek")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .options(topic="copied", checkpointLocation=str(tmp_path / "copied"))
        .trigger(availableNow=True)
    )
    run_to_the_end(stream)
    copied = load(spark, broker, "odradek", subscribe="copied", columns="key,value").collect()
    assert sorted(row.key for row in copied) == sorted(b"key-%d" % number for number in range(500))

    with pytest.raises(PySparkException, match="not part of a record"):
        spark.range(3).selectExpr("'x' as value", "id").write.format("odradek").option(
            "kafka.bootstrap.servers", broker.bootstrap
        ).option("topic", "ours").mode("append").save()


def offsets_of(batches: list[list[tuple[int, int]]]) -> list[tuple[int, int]]:
    return sorted(offset for batch in batches for offset in batch)


def in_order(rows: DataFrame) -> list[Row]:
    return sorted(rows.collect(), key=lambda row: (row.partition, row.offset))


def test_batch_jobs_and_for_each_batch_write_exactly_once(
    spark: SparkSession, broker: NodeProcess, cluster: Cluster, orders: str, tmp_path: Path
) -> None:
    for topic in ("jobs", "batches"):
        Admin(cluster).create_topic(topic, partitions=2, replication_factor=1)

    def write(rows: DataFrame, topic: str, name: str) -> None:
        options = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic, "kafka.transactional.id": name}
        rows.write.format("odradek").options(**options).mode("append").save()

    def committed(topic: str) -> int:
        return load(spark, broker, "odradek", subscribe=topic, **{"kafka.isolation.level": "read_committed"}).count()

    numbers = spark.range(20).selectExpr("cast(id as string) as value")
    write(numbers, "jobs", "loading")
    write(numbers, "jobs", "loading")
    with pytest.raises(PySparkException, match="Division by zero"):
        write(spark.range(20).selectExpr("cast(1 / (id - 15) as string) as value"), "jobs", "loading")
    assert committed("jobs") == 40

    def twice(batch: DataFrame, number: int) -> None:
        """As if Spark had not noted that it was done."""
        write(batch, "batches", "copying")
        write(batch, "batches", "copying")

    options = {"subscribe": orders, "startingOffsets": "earliest", "columns": "value", "maxOffsetsPerTrigger": "2000"}
    source = spark.readStream.format("odradek").option("kafka.bootstrap.servers", broker.bootstrap).options(**options)
    query = source.load().writeStream.foreachBatch(twice).option("checkpointLocation", str(tmp_path / "checkpoint"))
    run_to_the_end(query.trigger(availableNow=True))
    assert committed("batches") == 3_001
    with pytest.raises(PySparkException, match="belongs to another query"):
        write(numbers, "batches", "copying")


@pytest.mark.tier("proof")
def test_filters_make_the_scan_smaller(spark: SparkSession, broker: NodeProcess, orders: str) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        condition = "partition = 1 and offset >= 100 and timestamp > timestamp_millis(1700000000500)"
        plain = load(spark, broker, "odradek", subscribe=orders).where(condition)
        pushed = load(spark, broker, "odradek", subscribe=orders, pushdown="true").where(condition)
        assert in_order(pushed) == in_order(plain)
        assert pushed.rdd.getNumPartitions() == 1 < plain.rdd.getNumPartitions()
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.tier("proof")
def test_closed_segments_come_from_files(spark: SparkSession, tmp_path: Path) -> None:
    count = 60_000
    node = LeasingProcess(tmp_path)
    try:
        node.start()
        with Cluster(parse_bootstrap(node.bootstrap)) as cluster:
            Admin(cluster).create_topic("closed", partitions=1, replication_factor=1)
        producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 5})
        for number in range(count):
            producer.produce("closed", b"%090d" % number, b"key")
            producer.poll(0)
        assert producer.flush(60) == 0

        def answer(**options: str) -> tuple[Row, float]:
            def fetched() -> float:
                return scrape(node.http_port)("kafka_server_brokertopicmetrics_bytesout_total")

            before = fetched()
            rows = load(spark, node, "odradek", subscribe="closed", minPartitions="3", **options)
            assert SPARK[1] not in rows._jdf.queryExecution().toString()
            found = rows.selectExpr("sum(length(value))", "sum(offset)", "count(*)").first()
            assert found is not None
            return found, fetched() - before

        from_brokers, all_bytes = answer()
        from_files, some_bytes = answer(leasePrincipal=SPARK[0], leaseSecret=SPARK[1])

        assert from_files == from_brokers == Row(90 * count, count * (count - 1) // 2, count)
        # The last segment is still written to.
        assert some_bytes < 0.3 * all_bytes
        # A broker without users checks no password.
        assert [one["principal"] for one in node.leases()] == ["User:ANONYMOUS"]
    finally:
        node.remove()

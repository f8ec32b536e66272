"""Spark's own Kafka connector on Odradek, unchanged: streams by its documented options. Its batches and its sink are
compared with ours in `test_data_source.py`.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from examples.runtime.session import spark_session
from odradek.base.ids import TopicPartition
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from odradek.client.delete_records import delete_records
from tests.node_process import NodeProcess
from tests.patience import Patience
from tests.wire.cli_call import Cli

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.tier("proof")]

QUERY_S_MAX = 240.0
# In which a query that does not wait would have begun another batch.
QUIET_S = 4.0


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory, spark_jars: tuple[Path, ...]) -> Iterator[SparkSession]:
    directory = tmp_path_factory.mktemp("spark")
    with spark_session("connector-test", spark_jars, directory / "work", directory / "spark.log") as session:
        yield session


class Topic:
    def __init__(self, broker: NodeProcess, cluster: Cluster, name: str, partitions: int = 1) -> None:
        Admin(cluster).create_topic(name, partitions=partitions, replication_factor=1)
        self.name = name
        self._bootstrap = broker.bootstrap

    def put(self, numbers: range) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 5})
        for number in numbers:
            producer.produce(self.name, b"%d" % number)
        assert producer.flush(30) == 0

    def put_aborted(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "transactional.id": self.name})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(self.name, b"-1")
        assert producer.flush(30) == 0
        producer.abort_transaction(30)


class Stream:
    """From a topic into files, with a checkpoint; nothing is kept of it but these."""

    def __init__(self, spark: SparkSession, broker: NodeProcess, directory: Path, **options: str) -> None:
        self._spark = spark
        self._rows = stream(spark, broker, **options)
        self._directory = directory

    def to_the_end(self) -> list[int]:
        """The rows of each batch."""
        query = self._writer().trigger(availableNow=True).start()
        assert query.awaitTermination(QUERY_S_MAX)
        return [one.numInputRows for one in query.recentProgress if one.numInputRows]

    @contextmanager
    def running(self) -> Iterator[StreamingQuery]:
        query = self._writer().trigger(processingTime="100 milliseconds").start()
        try:
            yield query
        finally:
            query.stop()

    def numbers(self) -> list[int]:
        found = self._spark.read.schema("number int").parquet(str(self._directory / "files")).collect()
        return sorted(row.number for row in found)

    def _writer(self) -> DataStreamWriter:
        numbers = self._rows.selectExpr("cast(cast(value as string) as int) as number")
        writer = numbers.writeStream.format("parquet").option("path", str(self._directory / "files"))
        return writer.option("checkpointLocation", str(self._directory / "checkpoint"))


def stream(spark: SparkSession, broker: NodeProcess, **options: str) -> DataFrame:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    return reader.options(**options).load()


def wait_for(what: str, holds: Callable[[], bool]) -> None:
    patience = Patience(QUERY_S_MAX)
    while not holds():
        assert not patience.is_over(), what
        time.sleep(0.1)


def test_max_offsets_per_trigger_and_resuming_from_a_checkpoint(
    spark: SparkSession, broker: NodeProcess, cluster: Cluster, tmp_path: Path
) -> None:
    topic = Topic(broker, cluster, "limited", partitions=2)
    topic.put(range(250))
    topic.put_aborted()
    options = {
        "subscribePattern": "limit.d",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "100",
        "kafka.isolation.level": "read_committed",
        "includeHeaders": "true",
        "minPartitions": "4",
    }
    batches = Stream(spark, broker, tmp_path, **options).to_the_end()
    assert len(batches) >= 3 and max(batches) <= 100 and sum(batches) == 250
    topic.put(range(250, 300))
    again = Stream(spark, broker, tmp_path, **options)
    assert sum(again.to_the_end()) == 50
    assert again.numbers() == list(range(300))


def test_min_offsets_per_trigger_waits(
    spark: SparkSession, broker: NodeProcess, cluster: Cluster, tmp_path: Path
) -> None:
    topic = Topic(broker, cluster, "awaited")
    topic.put(range(10))
    options = {"subscribe": topic.name, "startingOffsets": "earliest", "minOffsetsPerTrigger": "100"}
    reading = Stream(spark, broker, tmp_path, **options, maxTriggerDelay="10m")
    with reading.running() as query:

        def read() -> int:
            return sum(one.numInputRows for one in query.recentProgress)

        wait_for("the first batch does not wait", lambda: read() == 10)
        topic.put(range(10, 70))
        time.sleep(QUIET_S)
        assert read() == 10
        topic.put(range(70, 120))
        wait_for("110 are enough", lambda: read() == 120)


def test_deleted_records_are_data_loss(
    spark: SparkSession, broker: NodeProcess, cluster: Cluster, tmp_path: Path
) -> None:
    topic = Topic(broker, cluster, "lost")
    topic.put(range(20))
    options = {"subscribe": topic.name, "startingOffsets": "earliest"}
    assert sum(Stream(spark, broker, tmp_path, **options).to_the_end()) == 20
    topic.put(range(20, 60))
    delete_records(cluster, {TopicPartition(topic.name, 0): 30})
    with pytest.raises(StreamingQueryException, match=r"(?i)some data may have been lost|out of range"):
        Stream(spark, broker, tmp_path, **options).to_the_end()
    patient = Stream(spark, broker, tmp_path, **options, failOnDataLoss="false")
    patient.to_the_end()
    assert patient.numbers() == [*range(20), *range(30, 60)]


def test_the_real_time_trigger(
    spark: SparkSession,
    broker: NodeProcess,
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """Rows are in the target while their batch still runs."""
    source, target = Topic(broker, cluster, "said"), Topic(broker, cluster, "heard")
    source.put(range(5))
    rows = stream(spark, broker, subscribe=source.name, startingOffsets="earliest").selectExpr(
        "concat('heard ', cast(value as string)) as value"
    )
    query = (
        rows.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("topic", target.name)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .outputMode("update")
        .trigger(realTime="5 minutes")
        .start()
    )
    cli = Cli(monkeypatch, capfdbinary, broker.bootstrap)

    def heard() -> list[bytes]:
        return cli.ok("consume", target.name, "--no-follow", "--format", "json").lines

    try:
        wait_for("what was there", lambda: len(heard()) == 5 or query.exception() is not None)
        source.put(range(5, 10))
        wait_for("what came", lambda: len(heard()) == 10 or query.exception() is not None)
        assert query.exception() is None and query.lastProgress is None
    finally:
        query.stop()

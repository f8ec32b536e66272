"""Data directories are opened by Odradek and Apache Kafka in turn, and every record, config and ID is preserved."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, NewPartitions, NewTopic, ResourceType

from odradek.records.batch import parse_batches
from tests.kafka.apache_kafka import ApacheKafka, KafkaTools
from tests.node_process import NodeProcess
from tests.odradek_process import OdradekProcess
from tests.wire.plain_requests import until

TIMEOUT_S = 30.0
SMALLEST_SEGMENT = str(1 << 20)


@dataclass
class Contents:
    """Everything a client can see of a broker."""

    topic_ids: dict[str, str] = field(default_factory=dict)
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    offsets: dict[str, tuple[int, int]] = field(default_factory=dict)
    records: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)


def write_everything(node: NodeProcess, *, delete_records: bool = True) -> None:
    """Several segments, every codec, idempotence, configs, deleted records, deleted topics, more partitions."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    new_topics = [
        NewTopic("plain", 3, 1),
        NewTopic("segments", 1, 1, config={"segment.bytes": SMALLEST_SEGMENT, "retention.ms": "-1"}),
        NewTopic("append-time", 1, 1, config={"message.timestamp.type": "LogAppendTime"}),
        NewTopic("compacted", 1, 1, config={"cleanup.policy": "compact"}),
        NewTopic("cut", 1, 1),
        NewTopic("doomed", 1, 1),
        NewTopic("empty", 2, 1, config={"max.message.bytes": "12345"}),
    ]
    for future in admin.create_topics(new_topics).values():
        future.result(TIMEOUT_S)
    admin.create_partitions([NewPartitions("empty", 4)])["empty"].result(TIMEOUT_S)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        settings: dict[str, Any] = {"compression.codec": codec, "enable.idempotence": True}
        _produce(node, "plain", 300, **settings)
    _produce(node, "segments", 400, value_bytes=10_000)
    for topic in ("append-time", "compacted", "cut", "doomed"):
        _produce(node, topic, 100)
    if delete_records:
        for deletion in admin.delete_records([TopicPartition("cut", 0, 40)]).values():
            deletion.result(TIMEOUT_S)
    admin.delete_topics(["doomed"])["doomed"].result(TIMEOUT_S)
    # Kafka's controller responds before its broker has applied the deletion.
    until(lambda: "doomed" not in admin.list_topics(timeout=TIMEOUT_S).topics, what="the deletion of a topic")


def _produce(node: NodeProcess, topic: str, count: int, *, value_bytes: int = 100, **settings: Any) -> None:
    refused: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 5, **settings})
    start_ms = int(time.time() * 1000)
    for number in range(count):
        producer.produce(
            topic,
            key=b"key %d" % (number % 50),
            value=(b"%d " % number * value_bytes)[:value_bytes],
            headers=[("number", str(number).encode())],
            timestamp=start_ms + number,
            on_delivery=lambda error, _: refused.append(error) if error else None,
        )
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    assert refused == []


def read_everything(node: NodeProcess) -> Contents:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    names = sorted(name for name in admin.list_topics(timeout=TIMEOUT_S).topics if not name.startswith("__"))
    contents = Contents()
    described = admin.describe_topics(TopicCollection(names))
    partitions = []
    for name in names:
        topic = described[name].result(TIMEOUT_S)
        contents.topic_ids[name] = str(topic.topic_id)
        contents.configs[name] = _own_configs(admin, name)
        partitions += [TopicPartition(name, number, OFFSET_BEGINNING) for number in range(len(topic.partitions))]
    _read_partitions(node, partitions, contents)
    return contents


def _own_configs(admin: AdminClient, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = admin.describe_configs([resource])[resource].result(TIMEOUT_S).values()
    return {entry.name: entry.value for entry in entries if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value}


def _watermarks(consumer: Consumer, partition: TopicPartition) -> tuple[int, int]:
    """Retries, because Apache Kafka lists itself as leader in Metadata shortly before it becomes the leader."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return consumer.get_watermark_offsets(partition, TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _read_partitions(node: NodeProcess, partitions: list[TopicPartition], contents: Contents) -> None:
    """Read each partition from the beginning to the end with one consumer."""
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    for partition in partitions:
        where = f"{partition.topic}-{partition.partition}"
        contents.offsets[where] = _watermarks(consumer, partition)
        contents.records[where] = []
    unread = set(contents.records)
    consumer.assign(partitions)
    deadline = time.monotonic() + TIMEOUT_S
    while unread:
        assert time.monotonic() < deadline, f"{node.name} did not serve all of {unread}"
        for message in consumer.consume(1000, 0.1):
            where = f"{message.topic()}-{message.partition()}"
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                unread.discard(where)
            else:
                contents.records[where].append(
                    (message.offset(), message.timestamp(), message.key(), message.value(), message.headers())
                )
    consumer.close()


def assert_same(before: Contents, after: Contents) -> None:
    assert after.topic_ids == before.topic_ids
    assert after.configs == before.configs
    assert after.offsets == before.offsets
    for where, records in before.records.items():
        assert after.records[where] == records, f"{where} changed"


Stop = Callable[[NodeProcess], None]


@pytest.mark.parametrize("writer", ["odradek", pytest.param("kafka", marks=pytest.mark.tier("proof"))])
@pytest.mark.parametrize(
    "stop",
    [pytest.param(NodeProcess.stop, marks=pytest.mark.tier("proof")), NodeProcess.kill],
    ids=["stopped", "killed"],
)
def test_data_directory_is_preserved_between_odradek_and_kafka(
    writer: str, stop: Stop, tmp_path: Path, apache_kafka_libs: Path
) -> None:
    """One broker writes, the other reads and extends, and the first reads again."""
    brokers: dict[str, NodeProcess] = {
        "odradek": OdradekProcess(tmp_path),
        "kafka": ApacheKafka(apache_kafka_libs, tmp_path),
    }
    first = brokers.pop(writer)
    (second,) = brokers.values()
    try:
        first.start()
        # After a kill, records deleted shortly before reappear: the log start offset is checkpointed once a minute.
        write_everything(first, delete_records=stop is NodeProcess.stop)
        written = read_everything(first)
        assert len(written.records["segments-0"]) == 400
        stop(first)

        second.start()
        assert_same(written, read_everything(second))
        _produce(second, "plain", 100)
        _produce(second, "segments", 150, value_bytes=10_000)
        admin = AdminClient({"bootstrap.servers": second.bootstrap})
        admin.create_topics([NewTopic("later", 2, 1)])["later"].result(TIMEOUT_S)
        until(lambda: "later" in admin.list_topics(timeout=TIMEOUT_S).topics, what="a later topic")
        extended = read_everything(second)
        stop(second)

        first.start()
        assert_same(extended, read_everything(first))
        first.stop()
    finally:
        first.kill()
        second.kill()


def test_kafka_dump_log_reads_odradeks_files(tmp_path: Path, apache_kafka_libs: Path) -> None:
    node = OdradekProcess(tmp_path).start()
    try:
        write_everything(node)
    finally:
        node.stop()
    tools = KafkaTools(apache_kafka_libs, node.bootstrap)
    segments = node.log_dirs[0] / "segments-0"
    logs = sorted(segments.glob("*.log"))
    assert len(logs) > 2
    printed = tools.dump_log(*logs, arguments=["--deep-iteration"])
    assert printed.count("isvalid: true") == printed.count("isvalid:")
    assert printed.count("| offset:") == 400
    indexes = [*segments.glob("*.index"), *segments.glob("*.timeindex")]
    sane = tools.dump_log(*indexes, arguments=["--index-sanity-check"])
    assert sane.count("passed sanity check") + sane.count("is empty") == len(indexes)
    metadata = tools.dump_log(
        *sorted((node.log_dirs[0] / "__cluster_metadata-0").glob("*.log")), arguments=["--cluster-metadata-decoder"]
    )
    assert '"name":"segments"' in metadata
    assert "Could not decode" not in metadata


def test_segments_after_an_offset_gap_are_preserved_without_checkpoints(
    tmp_path: Path, apache_kafka_libs: Path
) -> None:
    """Compaction left a gap between two segments, the topic's policy changed, and the checkpoints are gone."""
    odradek, kafka = OdradekProcess(tmp_path), ApacheKafka(apache_kafka_libs, tmp_path)
    found: list[Contents] = []
    try:
        odradek.start()
        admin = AdminClient({"bootstrap.servers": odradek.bootstrap})
        topic = NewTopic("gapped", 1, 1, config={"segment.bytes": SMALLEST_SEGMENT, "retention.ms": "-1"})
        admin.create_topics([topic])["gapped"].result(TIMEOUT_S)
        _produce(odradek, "gapped", 400, value_bytes=10_000)
        odradek.kill()
        first, *others = sorted((odradek.log_dirs[0] / "gapped-0").glob("*.log"))
        assert len(others) > 2
        headers = parse_batches(first.read_bytes())
        with first.open("r+b") as file:
            file.truncate(sum(header.size for header in headers[:-1]))
        for broker in (kafka, odradek):
            for name in ("recovery-point", "log-start", "cleaner"):
                (odradek.log_dirs[0] / f"{name}-offset-checkpoint").unlink(missing_ok=True)
            broker.start()
            found.append(read_everything(broker))
            broker.kill()
    finally:
        odradek.kill()
        kafka.kill()
    assert found[0].offsets == {"gapped-0": (0, 400)}
    assert len(found[0].records["gapped-0"]) < 400
    assert_same(*found)

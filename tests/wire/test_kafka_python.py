"""kafka-python: a client in pure Python with its own protocol code."""

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, KafkaAdminClient, OffsetSpec
from kafka.errors import (
    InvalidPartitionsError,
    InvalidTopicError,
    MessageSizeTooLargeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from tests.node_process import NODE_ID, NodeProcess

TIMEOUT_S = 20
CODECS = (None, "gzip", "snappy", "lz4", "zstd")


@pytest.fixture
def admin(broker: NodeProcess) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


@pytest.fixture
def created(admin: KafkaAdminClient, topic: str) -> str:
    """The test's topic, with one partition."""
    admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
    return topic


def produce(broker: NodeProcess, topic: str, values: list[bytes | None], **settings: Any) -> list[int]:
    """The offsets the values got."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, **settings)
    try:
        sent = [producer.send(topic, value=value, key=b"%d" % key) for key, value in enumerate(values)]
        return [future.get(TIMEOUT_S).offset for future in sent]
    finally:
        producer.close()


def consume(broker: NodeProcess, topic: str, count: int, **settings: Any) -> list[Any]:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", **settings)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    records: list[Any] = []
    for _ in range(TIMEOUT_S):
        records += consumer.poll(timeout_ms=1000).get(partition, [])
        if len(records) >= count:
            break
    consumer.close()
    return records


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("acks", [1, "all"])
def test_every_codec_and_acks(broker: NodeProcess, created: str, codec: str | None, acks: int | str) -> None:
    values = [b"value %d " % number * 20 for number in range(200)]
    offsets = produce(broker, created, list(values), compression_type=codec, acks=acks, linger_ms=5)
    assert offsets == list(range(200))
    records = consume(broker, created, 200)
    assert [record.value for record in records] == values
    assert [record.key for record in records] == [b"%d" % number for number in range(200)]


def test_acks_0(broker: NodeProcess, created: str) -> None:
    produce(broker, created, [b"one", b"two"], acks=0, enable_idempotence=False)
    assert [record.value for record in consume(broker, created, 2)] == [b"one", b"two"]


def test_idempotent_producer(broker: NodeProcess, created: str) -> None:
    values = [b"%d" % number for number in range(500)]
    offsets = produce(broker, created, list(values), enable_idempotence=True, batch_size=200)
    assert offsets == list(range(500))


def test_headers_timestamps_and_tombstones(broker: NodeProcess, created: str) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    headers = [("name", b"value"), ("name", b"again")]
    producer.send(created, b"v", b"k", headers=headers, timestamp_ms=1_600_000_000_000).get(TIMEOUT_S)
    producer.send(created, None, b"k", timestamp_ms=1_600_000_000_001).get(TIMEOUT_S)
    producer.close()
    first, second = consume(broker, created, 2)
    assert (list(first.headers), first.timestamp) == (headers, 1_600_000_000_000)
    assert (second.value, second.timestamp) == (None, 1_600_000_000_001)


def test_too_large_message_is_rejected(broker: NodeProcess, admin: KafkaAdminClient, topic: str) -> None:
    admin.create_topics({topic: {"configs": {"max.message.bytes": "1000"}}}, wait_for_metadata=True)
    with pytest.raises(MessageSizeTooLargeError):
        produce(broker, topic, [b"x" * 5000])


def test_topic_lifecycle(admin: KafkaAdminClient, created: str) -> None:
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([created])
    admin.create_partitions({created: 4})
    (described,) = admin.describe_topics([created])
    assert sorted(partition["partition_index"] for partition in described["partitions"]) == [0, 1, 2, 3]
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({created: 2})
    with pytest.raises(InvalidTopicError):
        admin.create_topics(["not a name"])
    assert created in admin.list_topics()
    admin.delete_topics([created])
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([created])


def test_configs(admin: KafkaAdminClient, created: str) -> None:
    admin.alter_configs([ConfigResource("topic", created, {"retention.ms": "12345"})])
    configs = admin.describe_configs([ConfigResource("topic", created)])
    assert configs["topic"][created]["retention.ms"]["value"] == "12345"


def test_deleting_records_and_listing_offsets(broker: NodeProcess, admin: KafkaAdminClient, created: str) -> None:
    produce(broker, created, [b"%d" % number for number in range(50)])
    partition = TopicPartition(created, 0)
    admin.delete_records({partition: 20})
    for spec, expected in ((OffsetSpec.EARLIEST, 20), (OffsetSpec.LATEST, 50)):
        assert admin.list_partition_offsets({partition: spec})[partition].offset == expected
    assert consume(broker, created, 1)[0].value == b"20"


def test_offsets_by_time(broker: NodeProcess, created: str) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for number in range(10):
        producer.send(created, b"v", timestamp_ms=1_000_000 + number * 10).get(TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
    partition = TopicPartition(created, 0)
    assert consumer.offsets_for_times({partition: 1_000_045})[partition].offset == 5
    assert consumer.end_offsets([partition]) == {partition: 10}
    consumer.close()


def test_describing_producers_and_disks(broker: NodeProcess, admin: KafkaAdminClient, created: str) -> None:
    produce(broker, created, [b"v"], enable_idempotence=True)
    (state,) = admin.describe_producers([TopicPartition(created, 0)]).values()
    assert len(state.active_producers) == 1
    assert created in str(admin.describe_log_dirs())


def test_cluster(admin: KafkaAdminClient, broker: NodeProcess) -> None:
    cluster = admin.describe_cluster()
    (node,) = cluster["brokers"]
    assert (node["broker_id"], node["port"]) == (NODE_ID, broker.port)

"""confluent-kafka, the Python binding of librdkafka."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.node_process import NODE_ID, NodeProcess
from tests.wire.plain_requests import until

TIMEOUT_S = 20.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture
def admin(broker: NodeProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def create(admin: AdminClient) -> Callable[..., None]:
    def create_topic(name: str, partitions: int = 1, **configs: str) -> None:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        created = admin.create_topics([NewTopic(name, partitions, 1, config=named)])
        created[name].result(TIMEOUT_S)

    return create_topic


def produce(broker: NodeProcess, topic: str, records: Sequence[dict[str, Any]], **settings: Any) -> list[Message]:
    """Sends the records and returns their delivery reports in order; raises what the broker refused."""
    delivered: list[Message] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        delivered.append(message)

    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, **settings})
    for record in records:
        producer.produce(topic, on_delivery=on_delivery, **record)
    assert producer.flush(TIMEOUT_S) == 0
    return delivered


def without_group(broker: NodeProcess) -> dict[str, Any]:
    """Settings of a consumer that uses no group coordinator; librdkafka requires a group ID anyway."""
    return {"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False}


def consume(
    broker: NodeProcess, topic: str, count: int, *, offset: int = OFFSET_BEGINNING, **settings: Any
) -> list[Message]:
    """Reads with an explicit assignment, without a group coordinator."""
    consumer = Consumer({**without_group(broker), **settings})
    consumer.assign([TopicPartition(topic, 0, offset)])
    read: list[Message] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(read) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(read), 0.5):
            assert message.error() is None, message.error()
            read.append(message)
    consumer.close()
    return read


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_codec_and_acks(
    broker: NodeProcess, create: Callable[..., None], topic: str, codec: str, acks: str
) -> None:
    create(topic)
    records = [{"key": b"%d" % number, "value": b"value %d " % number * 20} for number in range(200)]
    produce(broker, topic, records, acks=acks, **{"compression.codec": codec})
    read = consume(broker, topic, len(records))
    assert [(message.key(), message.value()) for message in read] == [
        (record["key"], record["value"]) for record in records
    ]
    assert [message.offset() for message in read] == list(range(len(records)))


def test_idempotent_producer(broker: NodeProcess, create: Callable[..., None], topic: str) -> None:
    create(topic)
    records = [{"value": b"%d" % number} for number in range(5000)]
    settings = {"enable.idempotence": True, "linger.ms": 0, "batch.num.messages": 10}
    delivered = produce(broker, topic, records, **settings)
    assert [message.offset() for message in delivered] == list(range(5000))
    assert [message.value() for message in consume(broker, topic, 5000)] == [record["value"] for record in records]


def test_headers_nulls_and_timestamps(broker: NodeProcess, create: Callable[..., None], topic: str) -> None:
    create(topic, retention_ms="-1")
    headers = [("a", b"1"), ("a", b"2"), ("empty", b""), ("null", None)]
    records: list[dict[str, Any]] = [
        {"key": None, "value": b"no key", "timestamp": 1_600_000_000_000},
        {"key": b"", "value": b"", "timestamp": 1_600_000_000_001},
        {"key": b"no value", "value": None, "timestamp": 1_600_000_000_002},
        {"key": b"k", "value": b"v", "headers": headers, "timestamp": 1_600_000_000_003},
    ]
    produce(broker, topic, records)
    read = consume(broker, topic, 4)
    assert [(message.key(), message.value()) for message in read] == [
        (None, b"no key"),
        (b"", b""),
        (b"no value", None),
        (b"k", b"v"),
    ]
    assert read[3].headers() == headers
    assert [message.timestamp() for message in read] == [
        (TIMESTAMP_CREATE_TIME, 1_600_000_000_000 + number) for number in range(4)
    ]


def test_log_append_time(broker: NodeProcess, create: Callable[..., None], topic: str) -> None:
    create(topic, message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000)
    delivered = produce(broker, topic, [{"value": b"v", "timestamp": 1000}])
    (message,) = consume(broker, topic, 1)
    kind, when_ms = message.timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert before_ms <= when_ms <= int(time.time() * 1000)
    assert delivered[0].timestamp() == (kind, when_ms)


def test_large_messages(broker: NodeProcess, create: Callable[..., None], topic: str) -> None:
    create(topic, max_message_bytes=str(8 << 20))
    values = [bytes([number]) * (4 << 20) for number in range(3)]
    produce(broker, topic, [{"value": value} for value in values], **{"message.max.bytes": 8 << 20})
    read = consume(broker, topic, 3, **{"fetch.message.max.bytes": 8 << 20})
    assert [message.value() for message in read] == values


def test_too_large_message_is_rejected(broker: NodeProcess, create: Callable[..., None], topic: str) -> None:
    create(topic, max_message_bytes="1000")
    with pytest.raises(KafkaException) as refusal:
        produce(broker, topic, [{"value": b"x" * 5000}])
    assert refusal.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_reading_from_any_offset(broker: NodeProcess, create: Callable[..., None], topic: str) -> None:
    create(topic)
    produce(broker, topic, [{"value": b"%d" % number} for number in range(100)])
    assert consume(broker, topic, 1, offset=42)[0].value() == b"42"
    consumer = Consumer(without_group(broker))
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S) == (0, 100)
    consumer.close()


def test_offsets_out_of_range_are_reported(broker: NodeProcess, create: Callable[..., None], topic: str) -> None:
    create(topic)
    produce(broker, topic, [{"value": b"v"}])
    consumer = Consumer({**without_group(broker), "auto.offset.reset": "error"})
    consumer.assign([TopicPartition(topic, 0, 999)])
    message = consumer.poll(TIMEOUT_S)
    consumer.close()
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._AUTO_OFFSET_RESET


def test_append_completes_the_long_poll_of_a_consumer(
    broker: NodeProcess, create: Callable[..., None], topic: str
) -> None:
    create(topic)
    consumer = Consumer({**without_group(broker), "fetch.wait.max.ms": 10_000, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, OFFSET_END)])

    def is_at_the_end() -> bool:
        message = consumer.poll(1.0)
        error = None if message is None else message.error()
        return error is not None and error.code() == KafkaError._PARTITION_EOF

    # The end is reported after a first long poll, so the next one has started.
    until(is_at_the_end, 60, what="the end")
    began = time.monotonic()
    produce(broker, topic, [{"value": b"at last"}])
    message = consumer.poll(TIMEOUT_S)
    waited_s = time.monotonic() - began
    consumer.close()
    assert message is not None
    assert message.value() == b"at last"
    assert waited_s < 9, "the long poll was not woken by the append"


def test_topics_are_created_on_first_use(broker: NodeProcess, topic: str) -> None:
    delivered = produce(broker, topic, [{"value": b"first"}])
    assert delivered[0].offset() == 0


def test_topic_lifecycle(admin: AdminClient, create: Callable[..., None], topic: str) -> None:
    create(topic, partitions=2, retention_ms="60000")
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(TIMEOUT_S)
    assert [partition.id for partition in described.partitions] == [0, 1]
    assert all(partition.leader.id == NODE_ID for partition in described.partitions)

    with pytest.raises(KafkaException) as exists:
        create(topic)
    assert exists.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS

    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(TIMEOUT_S)
    assert len(admin.list_topics(topic, TIMEOUT_S).topics[topic].partitions) == 5
    with pytest.raises(KafkaException) as shrinks:
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(TIMEOUT_S)
    assert shrinks.value.args[0].code() == KafkaError.INVALID_PARTITIONS

    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    with pytest.raises(KafkaException) as gone:
        admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    assert gone.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize("name", ["..", "with space", "a" * 250, "slash/slash"])
def test_invalid_topic_names_are_rejected(create: Callable[..., None], name: str) -> None:
    with pytest.raises(KafkaException) as refusal:
        create(name)
    assert refusal.value.args[0].code() == KafkaError.TOPIC_EXCEPTION


def test_topic_configs(admin: AdminClient, create: Callable[..., None], topic: str) -> None:
    create(topic, retention_ms="60000")
    resource = ConfigResource(ResourceType.TOPIC, topic)

    def values() -> dict[str, ConfigEntry]:
        configs: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
        return configs

    assert values()["retention.ms"].value == "60000"
    assert values()["retention.ms"].is_default is False
    assert values()["segment.bytes"].is_default is True

    changed = ConfigResource(ResourceType.TOPIC, topic)
    changed.add_incremental_config(
        ConfigEntry("max.message.bytes", "12345", incremental_operation=AlterConfigOpType.SET)
    )
    changed.add_incremental_config(ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE))
    admin.incremental_alter_configs([changed])[changed].result(TIMEOUT_S)
    _until(lambda: values()["max.message.bytes"].value == "12345")
    assert values()["retention.ms"].is_default is True

    refused = ConfigResource(ResourceType.TOPIC, topic)
    refused.add_incremental_config(ConfigEntry("retention.ms", "soon", incremental_operation=AlterConfigOpType.SET))
    with pytest.raises(KafkaException) as refusal:
        admin.incremental_alter_configs([refused])[refused].result(TIMEOUT_S)
    assert refusal.value.args[0].code() == KafkaError.INVALID_CONFIG


def test_broker_configs(admin: AdminClient) -> None:
    resource = ConfigResource(ResourceType.BROKER, str(NODE_ID))
    configs = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    assert configs["node.id"].value == str(NODE_ID)
    assert configs["node.id"].is_read_only


def test_deleting_records_and_listing_offsets(
    broker: NodeProcess, admin: AdminClient, create: Callable[..., None], topic: str
) -> None:
    # The records are from 1970: retention may delete them at any moment.
    create(topic, retention_ms="-1")
    records = [{"value": b"%d" % number, "timestamp": 1_000_000 + number} for number in range(100)]
    produce(broker, topic, records, **{"batch.num.messages": 10})

    def offset(spec: OffsetSpec) -> int:
        partition = TopicPartition(topic, 0)
        return int(admin.list_offsets({partition: spec})[partition].result(TIMEOUT_S).offset)

    deleted = admin.delete_records([TopicPartition(topic, 0, 33)])
    (result,) = (future.result(TIMEOUT_S) for future in deleted.values())
    assert result.low_watermark == 33
    assert offset(OffsetSpec.earliest()) == 33
    assert offset(OffsetSpec.latest()) == 100
    assert offset(OffsetSpec.for_timestamp(1_000_050)) == 50
    assert offset(OffsetSpec.max_timestamp()) == 99
    assert consume(broker, topic, 1)[0].value() == b"33"


def test_cluster_description(admin: AdminClient, broker: NodeProcess) -> None:
    cluster = admin.describe_cluster().result(TIMEOUT_S)
    assert [(node.id, node.port) for node in cluster.nodes] == [(NODE_ID, broker.port)]
    assert cluster.controller.id == NODE_ID


def _until(condition: Callable[[], bool]) -> None:
    """Kafka responds to a change before all brokers have applied it."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)

"""The pipeline's topics: creates them, counts their records, and reads one as a table."""

import time
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from examples.runtime.errors import PipelineError

REQUEST_TIMEOUT_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Topics:
    """Names and partition counts of the pipeline's topics."""

    orders: str = "orders"
    totals: str = "orders-per-minute"
    orders_partitions: int = 3
    totals_partitions: int = 2


def create_topics(bootstrap: str, topics: Topics) -> None:
    """Creates both topics. The totals topic is compacted: a table with the latest value of each key."""
    new_topics = [
        NewTopic(topics.orders, topics.orders_partitions, 1),
        NewTopic(topics.totals, topics.totals_partitions, 1, config={"cleanup.policy": "compact"}),
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    for name, created in admin.create_topics(new_topics, operation_timeout=REQUEST_TIMEOUT_SECONDS).items():
        try:
            created.result(REQUEST_TIMEOUT_SECONDS)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                raise PipelineError(
                    f"topic {name} already exists at {bootstrap} and its records would be counted: delete it first"
                ) from error
            raise PipelineError(f"cannot create topic {name} at {bootstrap}: {reason.str()}") from error


def end_offsets(bootstrap: str, topic: str, partitions: int) -> list[int]:
    consumer = _assigned_consumer(bootstrap)
    try:
        return [
            consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=REQUEST_TIMEOUT_SECONDS)[1]
            for partition in range(partitions)
        ]
    except KafkaException as error:
        raise PipelineError(f"cannot read the end offsets of {topic}: {error.args[0].str()}") from error
    finally:
        consumer.close()


def read_latest_by_key(bootstrap: str, topic: str, partitions: int) -> dict[bytes, bytes]:
    """Reads a whole compacted topic as a table: the last value of each key."""
    consumer = _assigned_consumer(bootstrap)
    latest: dict[bytes, bytes] = {}
    unfinished = set(range(partitions))
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in unfinished])
        deadline = time.monotonic() + REQUEST_TIMEOUT_SECONDS
        while unfinished:
            message = consumer.poll(0.5)
            if message is None:
                if time.monotonic() > deadline:
                    raise PipelineError(f"no record received from {topic} for {REQUEST_TIMEOUT_SECONDS:.0f} s")
                continue
            deadline = time.monotonic() + REQUEST_TIMEOUT_SECONDS
            error = message.error()
            if error is None:
                latest[message.key() or b""] = message.value() or b""
            elif error.code() == KafkaError._PARTITION_EOF:
                unfinished.discard(message.partition())
            else:
                raise PipelineError(f"cannot read {topic}: {error.str()}")
    finally:
        consumer.close()
    return latest


def _assigned_consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            # The client requires a group ID although it joins no group.
            "group.id": "orders-pipeline-check",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 2,
        }
    )

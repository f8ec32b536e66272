"""Log compaction as clients see it: eventually each key keeps only its last value, at its original offset."""

import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.node_process import NodeProcess

KEYS = 20
ROUNDS = 50
PATIENCE_SECONDS = 60


def test_compaction_keeps_only_the_last_value_of_each_key(broker: NodeProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.001",
        "min.compaction.lag.ms": "0",
        "max.compaction.lag.ms": "1000",
        "delete.retention.ms": "0",
    }
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(10)
    expected = _write(broker, topic)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (found := _read(broker, topic)) != expected and time.monotonic() < deadline:
        # The active segment is never compacted: another record makes the log roll it.
        expected |= _write_one(broker, topic)
        time.sleep(1)
    assert found == expected


def _write(broker: NodeProcess, topic: str) -> dict[str, tuple[int, str]]:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    last: dict[str, tuple[int, str]] = {}
    for number in range(KEYS * ROUNDS):
        producer.produce(topic, key=f"key-{number % KEYS}", value=f"value-{number}", partition=0)
        last[f"key-{number % KEYS}"] = (number, f"value-{number}")
    assert producer.flush(10) == 0
    return last


def _write_one(broker: NodeProcess, topic: str) -> dict[str, tuple[int, str]]:
    placed: list[int] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, key="closing", value="x", partition=0, on_delivery=lambda _, m: placed.append(m.offset()))
    assert producer.flush(10) == 0
    return {"closing": (placed[0], "x")}


def _read(broker: NodeProcess, topic: str) -> dict[str, tuple[int, str]]:
    """Reads all remaining records; of a duplicate key it keeps the first one, so that the comparison fails."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "unused",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    records: dict[str, tuple[int, str]] = {}
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            break
        key = message.key()
        value = message.value()
        assert key is not None
        assert value is not None
        # The records that only roll segments may appear more than once.
        if key == b"closing":
            records["closing"] = (message.offset() or 0, value.decode())
        else:
            records.setdefault(key.decode(), (message.offset() or 0, value.decode()))
    consumer.close()
    return records

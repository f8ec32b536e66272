"""Uses a cluster as users would, with confluent-kafka."""

import time
from collections.abc import Iterable

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.testing import Cluster
from tests.quick_retries import QUICK_RETRIES

SECONDS_MAX = 30.0


def create_topic(cluster: Cluster, name: str, replicas: int = 3) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(name, 1, replicas)])[name].result(SECONDS_MAX)
    cluster.wait_until_healthy()


def produce(cluster: Cluster, topic: str, values: Iterable[str]) -> None:
    """Produce the values and wait until all are acknowledged."""
    failures: list[object] = []

    def on_delivery(error: object, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, **QUICK_RETRIES})
    for value in values:
        producer.produce(topic, value, on_delivery=on_delivery)
    assert producer.flush(SECONDS_MAX) == 0
    assert not failures


def consume(cluster: Cluster, topic: str, count: int) -> list[str]:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[str] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(values) < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            values.append(message.value().decode())
    consumer.close()
    return values


def texts(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last)]

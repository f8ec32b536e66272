"""The example test of docs/tutorials/testing.md, and a check that the page contains it."""

import inspect
from pathlib import Path

from confluent_kafka import Producer

from odradek.testing import Cluster

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "testing.md"


def test_producer_survives_failover() -> None:
    with Cluster(brokers=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
        errors: list[object] = []
        for number in range(1000):
            producer.produce("orders", str(number), on_delivery=lambda error, _: errors.append(error))
            if number == 500:
                producer.flush()
                cluster.kill(cluster.leader("orders"))
        assert producer.flush(30) == 0 and errors == [None] * 1000


def test_the_tutorial_contains_the_example() -> None:
    shown = inspect.getsource(test_producer_survives_failover).replace("() -> None", "()").replace(": list[object]", "")
    assert shown.strip() in PAGE.read_text()

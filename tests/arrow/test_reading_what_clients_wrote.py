"""Records of real clients read as Arrow: from the broker, from its files, and while the broker fails."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import odradek
from odradek.client.errors import UnknownTopic
from odradek.pipelines.arrow.brokers import TopicRecreated
from odradek.pipelines.arrow.segments import DirectoryInUse
from tests.kafka.apache_kafka import ApacheKafka
from tests.node_process import NodeProcess
from tests.odradek_process import OdradekProcess

pytestmark = pytest.mark.timeout(120)

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestampType", "headers"]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture(params=["odradek", pytest.param("kafka", marks=pytest.mark.kafka)])
def any_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NodeProcess]:
    properties = {"log.segment.bytes": "1048576"}
    node: NodeProcess
    if request.param == "kafka":
        node = ApacheKafka(request.getfixturevalue("apache_kafka_libs"), tmp_path / "node", properties=properties)
    else:
        node = OdradekProcess(tmp_path / "node", properties=properties)
    try:
        yield node.start()
    finally:
        node.remove()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[NodeProcess]:
    node = OdradekProcess(tmp_path / "node")
    try:
        yield node.start()
    finally:
        node.remove()


def create_topic(broker: NodeProcess, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)


def delete_topic(broker: NodeProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result(30)


def rows(topic: str, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = odradek.read_topic(topic, columns=COLUMNS, **options).read_all().to_pylist()
    return found


def test_brokers_and_files_return_what_clients_wrote(any_broker: NodeProcess) -> None:
    broker = any_broker
    create_topic(broker, "orders", 2)
    written: dict[int, list[tuple[Any, ...]]] = {0: [], 1: []}
    for codec in CODECS:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec, "linger.ms": 5})
        for number in range(2_000):
            key = None if number % 7 == 0 else b"%s-%d" % (codec.encode(), number)
            value = None if number % 11 == 0 else key and key * (number % 30)
            headers = [("codec", codec.encode()), ("none", None)] if number % 3 == 0 else []
            producer.produce("orders", value, key, number % 2, headers=headers)
            expected_headers = [{"key": name, "value": content} for name, content in headers] or None
            written[number % 2].append((key, value, expected_headers))
        assert producer.flush(60) == 0
    for committed in (False, True):
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "one", "linger.ms": 5})
        producer.init_transactions(30)
        producer.begin_transaction()
        for number in range(500):
            value = b"%d" % number
            producer.produce("orders", value, b"transaction", 0)
            if committed:
                written[0].append((b"transaction", value, None))
        if committed:
            producer.commit_transaction(30)
        else:
            assert producer.flush(60) == 0
            producer.abort_transaction(30)

    from_brokers = rows("orders", bootstrap_servers=broker.bootstrap)

    for partition in (0, 1):
        found = [row for row in from_brokers if row["partition"] == partition]
        assert [(row["key"], row["value"], row["headers"]) for row in found] == written[partition]
    everything = rows("orders", bootstrap_servers=broker.bootstrap, read_committed=False)
    assert len(everything) == len(from_brokers) + 500
    middle = rows("orders", bootstrap_servers=broker.bootstrap, partitions=[0], start=777, end=3_333)
    assert [row["offset"] for row in middle] == list(range(777, 3_333))
    with pytest.raises(DirectoryInUse):
        rows("orders", directory=broker.log_dirs[0])
    with pytest.raises(UnknownTopic):
        rows("ordres", bootstrap_servers=broker.bootstrap)

    broker.stop()

    assert rows("orders", directory=broker.log_dirs[0]) == from_brokers
    assert rows("orders", directory=broker.log_dirs[0], read_committed=False) == everything


def test_reading_survives_a_broker_kill_and_detects_a_recreated_topic(broker: NodeProcess) -> None:
    create_topic(broker, "orders", 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "acks": "all"})
    payload = bytes(1_000)
    for _ in range(40_000):
        producer.produce("orders", payload)
        producer.poll(0)
    assert producer.flush(60) == 0
    # Otherwise its metadata requests would create the topic again.
    del producer

    reading = odradek.read_topic("orders", columns=["offset"], bootstrap_servers=broker.bootstrap, batch_rows=1_000)
    offsets = reading.read_next_batch().column(0).to_pylist()
    broker.kill()
    broker.start()
    offsets += [offset for batch in reading for offset in batch.column(0).to_pylist()]

    assert offsets == list(range(40_000))

    reading = odradek.read_topic("orders", columns=["offset"], bootstrap_servers=broker.bootstrap, batch_rows=1_000)
    reading.read_next_batch()
    delete_topic(broker, "orders")
    create_topic(broker, "orders", 1)
    with pytest.raises(TopicRecreated, match="deleted and recreated"):
        reading.read_all()

"""Transactions with real clients: read_committed consumers read exactly the committed records."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.kafka.apache_kafka import KafkaTools, ToolFailed
from tests.kafka.java_program import java_command
from tests.node_process import NodeProcess

SOURCES = Path(__file__).parent.parent / "kafka" / "java"
SECONDS_MAX = 60.0


def create(broker: NodeProcess, *names: str, partitions: int = 2) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for created in admin.create_topics([NewTopic(name, partitions, 1) for name in names]).values():
        created.result(20)


def transactional(broker: NodeProcess, name: str, **others: Any) -> Producer:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": name, "log_level": 0, "linger.ms": 0} | others
    )
    producer.init_transactions(SECONDS_MAX)
    return producer


def read_all(broker: NodeProcess, topic: str, *, committed: bool = True, partitions: int = 2) -> list[list[bytes]]:
    """Reads each partition from the beginning to its current end."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "read_all",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        found: list[list[bytes]] = [[] for _ in range(partitions)]
        ended: set[int] = set()
        deadline = time.monotonic() + SECONDS_MAX
        while len(ended) < partitions:
            assert time.monotonic() < deadline, f"of {topic} only the partitions {ended} were read to the end"
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is not None:
                ended.add(message.partition())
            else:
                found[message.partition()].append(message.value())
        return found
    finally:
        consumer.close()


def test_read_committed_returns_committed_and_skips_aborted_records(broker: NodeProcess, topic: str) -> None:
    create(broker, topic)
    producer = transactional(broker, topic)
    for number in range(6):
        producer.begin_transaction()
        for index in range(2):
            for part in range(3):
                producer.produce(topic, b"%d.%d" % (number, part), partition=index)
        if number % 2:
            producer.flush(SECONDS_MAX)
            producer.abort_transaction(SECONDS_MAX)
        else:
            producer.commit_transaction(SECONDS_MAX)
    committed = [b"%d.%d" % (number, part) for number in (0, 2, 4) for part in range(3)]
    assert read_all(broker, topic) == [committed, committed]
    assert [len(one) for one in read_all(broker, topic, committed=False)] == [18, 18]


def test_read_committed_stops_at_the_first_open_transaction(broker: NodeProcess, topic: str) -> None:
    create(broker, topic, partitions=1)
    producer = transactional(broker, topic)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(SECONDS_MAX)
    plain = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    plain.produce(topic, b"plain", partition=0)
    plain.flush(SECONDS_MAX)
    assert read_all(broker, topic, partitions=1) == [[]]
    assert read_all(broker, topic, partitions=1, committed=False) == [[b"open", b"plain"]]
    producer.abort_transaction(SECONDS_MAX)
    assert read_all(broker, topic, partitions=1) == [[b"plain"]]


def test_transactional_offsets_are_kept_only_if_the_transaction_commits(broker: NodeProcess, topic: str) -> None:
    create(broker, topic)
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": topic, "enable.auto.commit": False, "log_level": 0}
    )
    consumer.subscribe([topic])
    deadline = time.monotonic() + SECONDS_MAX
    while not consumer.assignment():
        assert time.monotonic() < deadline
        consumer.poll(0.2)
    producer = transactional(broker, topic)
    partitions = [TopicPartition(topic, index) for index in range(2)]

    def committed() -> list[int]:
        return [one.offset for one in consumer.committed(partitions, SECONDS_MAX)]

    for offset, commits in ((7, True), (9, False), (11, True)):
        producer.begin_transaction()
        producer.produce(topic, b"with offsets")
        offsets = [TopicPartition(topic, index, offset) for index in range(2)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), SECONDS_MAX)
        if commits:
            producer.commit_transaction(SECONDS_MAX)
            assert committed() == [offset, offset]
        else:
            producer.abort_transaction(SECONDS_MAX)
            assert committed() == [7, 7]
    consumer.close()


def test_second_producer_instance_fences_the_first(broker: NodeProcess, topic: str) -> None:
    create(broker, topic, partitions=1)
    first = transactional(broker, topic)
    first.begin_transaction()
    first.produce(topic, b"of the first")
    first.flush(SECONDS_MAX)
    second = transactional(broker, topic)
    with pytest.raises(KafkaException) as caught:
        first.commit_transaction(SECONDS_MAX)
    assert caught.value.args[0].fatal()
    second.begin_transaction()
    second.produce(topic, b"of the second")
    second.commit_transaction(SECONDS_MAX)
    assert read_all(broker, topic, partitions=1) == [[b"of the second"]]


def test_transaction_that_exceeds_its_timeout_is_aborted(broker: NodeProcess, topic: str) -> None:
    create(broker, topic, partitions=1)
    slow = transactional(broker, topic, **{"transaction.timeout.ms": 1_000, "message.timeout.ms": 1_000})
    slow.begin_transaction()
    slow.produce(topic, b"slow")
    slow.flush(SECONDS_MAX)
    deadline = time.monotonic() + SECONDS_MAX
    plain = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    plain.produce(topic, b"plain")
    plain.flush(SECONDS_MAX)
    while read_all(broker, topic, partitions=1) == [[]]:
        assert time.monotonic() < deadline, "the transaction stays open"
        time.sleep(0.5)
    assert read_all(broker, topic, partitions=1) == [[b"plain"]]
    with pytest.raises(KafkaException):
        slow.commit_transaction(SECONDS_MAX)


# ---- Java


@pytest.fixture
def copying(broker: NodeProcess, apache_kafka_libs: Path, topic: str) -> Iterator[Any]:
    running: list[subprocess.Popen[str]] = []

    def copy(name: str, count: int) -> subprocess.Popen[str]:
        command = java_command(apache_kafka_libs, SOURCES / "TransactionalCopy.java")
        process = subprocess.Popen(
            [*command, broker.bootstrap, f"{topic}-in", f"{topic}-out", name, str(count)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        running.append(process)
        return process

    yield copy
    for process in running:
        process.kill()
        process.communicate()


def fill(broker: NodeProcess, topic: str, count: int) -> list[list[bytes]]:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    written: list[list[bytes]] = [[], []]
    for number in range(count):
        written[number % 2].append(b"%d" % number)
        producer.produce(topic, b"%d" % number, partition=number % 2)
    assert producer.flush(SECONDS_MAX) == 0
    return written


def test_java_producer_copies_every_record_exactly_once(broker: NodeProcess, topic: str, copying: Any) -> None:
    """The Java client uses transaction.version 2: it adds no partitions, and each transaction bumps its epoch."""
    create(broker, f"{topic}-in", f"{topic}-out")
    written = fill(broker, f"{topic}-in", 600)
    assert copying(topic, 600).communicate(timeout=120)[0].split("\n")[-2] == "copied 600"
    assert read_all(broker, f"{topic}-out") == written


@pytest.mark.tier("proof")
def test_killed_java_producer_leaves_no_partial_transaction(broker: NodeProcess, topic: str, copying: Any) -> None:
    create(broker, f"{topic}-in", f"{topic}-out")
    written = fill(broker, f"{topic}-in", 2_000)
    first = copying(topic, 1_000_000)
    assert first.stdout.readline() == "begun\n"
    deadline = time.monotonic() + SECONDS_MAX
    while sum(map(len, read_all(broker, f"{topic}-out"))) < 300:
        assert time.monotonic() < deadline
    first.kill()
    copied = sum(map(len, read_all(broker, f"{topic}-out")))
    second = copying(topic, 2_000 - copied)
    second.communicate(timeout=120)
    assert read_all(broker, f"{topic}-out") == written


def test_transactions_are_described_and_a_hanging_one_is_aborted(
    broker: NodeProcess, tools: KafkaTools, topic: str
) -> None:
    create(broker, topic, partitions=1)
    producer = transactional(broker, topic)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(SECONDS_MAX)
    listed = tools.transactions("list")
    assert any(topic in line and "Ongoing" in line for line in listed.splitlines())
    described = tools.transactions("describe", "--transactional-id", topic)
    assert f"{topic}-0" in described
    about = ("--topic", topic, "--partition", "0")
    producers = tools.transactions("describe-producers", *about)
    assert len(producers.splitlines()) >= 2
    tools.transactions("abort", *about, "--start-offset", "0")
    plain = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    plain.produce(topic, b"plain")
    plain.flush(SECONDS_MAX)
    assert read_all(broker, topic, partitions=1) == [[b"plain"]]
    with pytest.raises(ToolFailed):
        tools.transactions("abort", *about, "--start-offset", "0")

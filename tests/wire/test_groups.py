"""Consumer groups with real clients: members share partitions, commit offsets, and resume from them."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer

from tests.kafka.apache_kafka import KafkaTools
from tests.kafka.java_program import JavaProgram
from tests.node_process import NodeProcess
from tests.wire.plain_requests import until

PARTITIONS = 4
RECORDS = 40
TIMEOUT_S = 30.0


@pytest.fixture
def admin(broker: NodeProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def filled(broker: NodeProcess, admin: AdminClient, topic: str) -> str:
    """A topic of four partitions with ten records in each."""
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    write(broker, topic, 0, RECORDS)
    return topic


def write(broker: NodeProcess, topic: str, start: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    for number in range(start, end):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(30) == 0


class Reader:
    """A confluent-kafka consumer that records the values it reads and the partitions it gets and loses."""

    def __init__(self, broker: NodeProcess, group: str, topic: str, **settings: Any) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        if given.get("group.protocol") != "consumer":
            # In the consumer protocol the coordinator sets these.
            given = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 300, **given}
        self.consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **given,
            }
        )
        self.read: list[int] = []
        self.assigned: list[int] = []
        self.revoked: list[int] = []
        self.consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def poll(self) -> None:
        message = self.consumer.poll(0.02)
        if message is not None and message.error() is None:
            self.read.append(int(message.value()))

    @property
    def share(self) -> list[int]:
        return sorted(one.partition for one in self.consumer.assignment())

    def _on_assign(self, _: object, partitions: list[TopicPartition]) -> None:
        self.assigned += [one.partition for one in partitions]

    def _on_revoke(self, _: object, partitions: list[TopicPartition]) -> None:
        self.revoked += [one.partition for one in partitions]


def poll_until(readers: list[Reader], condition: Any, what: str) -> None:
    def is_reached() -> bool:
        for reader in readers:
            reader.poll()
        return bool(condition())

    until(is_reached, TIMEOUT_S, what=what)


def committed(broker: NodeProcess, group: str, topic: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    try:
        partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        return {one.partition: one.offset for one in consumer.committed(partitions, timeout=20)}
    finally:
        consumer.close()


class TestConfluent:
    def test_restarted_consumer_resumes_from_its_committed_offsets(self, broker: NodeProcess, filled: str) -> None:
        first = Reader(broker, f"{filled}-group", filled)
        poll_until([first], lambda: len(first.read) == RECORDS, "all records")
        first.consumer.commit(asynchronous=False)
        first.consumer.close()
        assert committed(broker, f"{filled}-group", filled) == dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)
        write(broker, filled, RECORDS, RECORDS + 8)
        second = Reader(broker, f"{filled}-group", filled)
        poll_until([second], lambda: len(second.read) >= 8, "the later records")
        second.consumer.close()
        assert sorted(second.read) == list(range(RECORDS, RECORDS + 8))

    def test_auto_commit_commits_what_was_read(self, broker: NodeProcess, filled: str) -> None:
        settings = {"enable_auto_commit": True, "auto_commit_interval_ms": 100}
        reader = Reader(broker, f"{filled}-group", filled, **settings)
        poll_until([reader], lambda: len(reader.read) == RECORDS, "all records")
        wanted = dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)
        poll_until([reader], lambda: committed(broker, f"{filled}-group", filled) == wanted, "the commits")
        reader.consumer.close()

    @pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
    def test_members_share_partitions(self, broker: NodeProcess, filled: str, strategy: str) -> None:
        settings = {"partition_assignment_strategy": strategy}
        readers = [Reader(broker, f"{filled}-group", filled, **settings)]
        poll_until(readers, lambda: len(readers[0].share) == PARTITIONS, "all partitions for the first member")
        readers.append(Reader(broker, f"{filled}-group", filled, **settings))
        poll_until(readers, lambda: [len(one.share) for one in readers] == [2, 2], "two partitions for each")
        assert sorted(readers[0].share + readers[1].share) == list(range(PARTITIONS))
        if strategy == "cooperative-sticky":
            assert len(readers[0].revoked) == 2, "only the reassigned partitions are revoked"
        readers[1].consumer.close()
        poll_until(
            readers[:1], lambda: len(readers[0].share) == PARTITIONS, "all partitions for the first member again"
        )
        readers[0].consumer.close()

    def test_static_member_keeps_its_assignment_across_a_restart(self, broker: NodeProcess, filled: str) -> None:
        group = f"{filled}-group"
        others = Reader(broker, group, filled, group_instance_id="others")
        absent = Reader(broker, group, filled, group_instance_id="absent")
        poll_until([others, absent], lambda: len(others.share) == len(absent.share) == 2, "two partitions for each")
        shares, changes = (others.share, absent.share), len(others.assigned)
        absent.consumer.close()
        back = Reader(broker, group, filled, group_instance_id="absent")
        poll_until([others, back], lambda: len(back.share) == 2, "its partitions again")
        end = time.monotonic() + 1
        poll_until([others, back], lambda: time.monotonic() > end, "a while")
        assert (others.share, back.share) == shares
        assert len(others.assigned) == changes
        for reader in (others, back):
            reader.consumer.close()

    def test_member_that_stops_polling_loses_its_partitions(self, broker: NodeProcess, filled: str) -> None:
        settings = {"session_timeout_ms": 2000}
        polled = Reader(broker, f"{filled}-group", filled, **settings)
        stopped = Reader(broker, f"{filled}-group", filled, **settings, max_poll_interval_ms=2000)
        poll_until([polled, stopped], lambda: len(polled.share) == len(stopped.share) == 2, "two partitions for each")
        poll_until([polled], lambda: len(polled.share) == PARTITIONS, "all partitions for the polling member")
        for reader in (polled, stopped):
            reader.consumer.close()

    def test_groups_are_described_listed_and_deleted(
        self, broker: NodeProcess, admin: AdminClient, filled: str
    ) -> None:
        group = f"{filled}-group"
        reader = Reader(broker, group, filled, client_id="described")
        poll_until([reader], lambda: len(reader.share) == PARTITIONS, "all partitions")
        poll_until([reader], lambda: len(reader.read) == RECORDS, "all records")
        reader.consumer.commit(asynchronous=False)
        described = admin.describe_consumer_groups([group])[group].result(20)
        assert described.state is ConsumerGroupState.STABLE
        (member,) = described.members
        assert member.client_id == "described"
        assert sorted(one.partition for one in member.assignment.topic_partitions) == list(range(PARTITIONS))
        listed = {one.group_id: one.state for one in admin.list_consumer_groups().result(20).valid}
        assert listed[group] is ConsumerGroupState.STABLE
        with pytest.raises(Exception, match=r"(?i)not empty|non.?empty"):
            admin.delete_consumer_groups([group])[group].result(20)
        reader.consumer.close()
        wanted = [TopicPartition(filled, 0, 3)]
        admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)])[group].result(20)
        assert committed(broker, group, filled)[0] == 3
        admin.delete_consumer_groups([group])[group].result(20)
        assert group not in {one.group_id for one in admin.list_consumer_groups().result(20).valid}


class TestAiokafka:
    def test_restarted_consumer_resumes_from_its_committed_offsets(self, broker: NodeProcess, filled: str) -> None:
        async def read(count: int) -> list[int]:
            settings = {"group_id": f"{filled}-group", "auto_offset_reset": "earliest", "enable_auto_commit": False}
            async with AIOKafkaConsumer(filled, bootstrap_servers=broker.bootstrap, **settings) as consumer:
                records = [await asyncio.wait_for(consumer.getone(), TIMEOUT_S) for _ in range(count)]
                await consumer.commit()
            return [int(record.value) for record in records]

        assert sorted(asyncio.run(read(RECORDS))) == list(range(RECORDS))
        write(broker, filled, RECORDS, RECORDS + 4)
        assert sorted(asyncio.run(read(4))) == list(range(RECORDS, RECORDS + 4))

    def test_members_share_partitions(self, broker: NodeProcess, filled: str) -> None:
        async def work() -> None:
            settings = {"bootstrap_servers": broker.bootstrap, "group_id": f"{filled}-group"}
            consumers = [AIOKafkaConsumer(filled, **settings, heartbeat_interval_ms=300) for _ in range(2)]
            await asyncio.gather(*(consumer.start() for consumer in consumers))
            while [len(consumer.assignment()) for consumer in consumers] != [2, 2]:
                await asyncio.gather(*(consumer.getmany(timeout_ms=100) for consumer in consumers))
            await asyncio.gather(*(consumer.stop() for consumer in consumers))

        asyncio.run(asyncio.wait_for(work(), 60))


class TestKafkaPython:
    def test_restarted_consumer_resumes_from_its_committed_offsets(self, broker: NodeProcess, filled: str) -> None:
        assert read_with_kafka_python(broker, filled, RECORDS) == list(range(RECORDS))
        write(broker, filled, RECORDS, RECORDS + 4)
        assert read_with_kafka_python(broker, filled, 4) == list(range(RECORDS, RECORDS + 4))


def read_with_kafka_python(broker: NodeProcess, topic: str, count: int) -> list[int]:
    settings = {"group_id": f"{topic}-group", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    consumer = KafkaConsumer(topic, bootstrap_servers=broker.bootstrap, **settings)
    records: list[int] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(records) < count and time.monotonic() < deadline:
        for some in consumer.poll(timeout_ms=500).values():
            records += [int(record.value) for record in some]
    consumer.commit()
    consumer.close()
    return sorted(records)


def numbers(printed: str) -> list[int]:
    """The numbers of the records, without the tool's other output."""
    return [int(line) for line in printed.splitlines() if line.isdecimal()]


@pytest.fixture(scope="session")
def java_members(apache_kafka_libs: Path) -> Iterator[JavaProgram]:
    with JavaProgram(apache_kafka_libs, "GroupMembers") as program:
        yield program


class TestJava:
    def test_members_share_partitions_and_resume(
        self, broker: NodeProcess, filled: str, java_members: JavaProgram
    ) -> None:
        where = (broker.bootstrap, f"{filled}-group", filled)
        assert java_members.request("read", *where, 2, RECORDS) == [f"records {RECORDS} shares 2,2"]
        assert committed(broker, f"{filled}-group", filled) == dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)
        write(broker, filled, RECORDS, RECORDS + 6)
        assert java_members.request("read", *where, 1, 6) == ["records 6 shares 4"]

    def test_console_consumer_resumes_from_committed_offsets(
        self, broker: NodeProcess, tools: KafkaTools, filled: str
    ) -> None:
        about = ("--topic", filled, "--group", f"{filled}-group", "--timeout-ms", "20000")
        read = tools.console_consumer(*about, "--from-beginning", "--max-messages", str(RECORDS))
        assert sorted(numbers(read)) == list(range(RECORDS))
        write(broker, filled, RECORDS, RECORDS + 4)
        read = tools.console_consumer(*about, "--max-messages", "4")
        assert sorted(numbers(read)) == list(range(RECORDS, RECORDS + 4))

    def test_consumer_groups_tool_describes_resets_and_deletes(
        self, broker: NodeProcess, tools: KafkaTools, filled: str
    ) -> None:
        group = f"{filled}-group"
        reader = Reader(broker, group, filled, client_id="tooled")
        poll_until([reader], lambda: len(reader.read) == RECORDS, "all records")
        reader.consumer.commit(asynchronous=False)
        assert group in tools.consumer_groups("--list").splitlines()
        rows = [
            row.split() for row in tools.consumer_groups("--describe", "--group", group).splitlines() if filled in row
        ]
        assert {(row[2], row[3], row[4], row[5]) for row in rows} == {
            (str(n), "10", "10", "0") for n in range(PARTITIONS)
        }
        assert {row[8] for row in rows} == {"tooled"}
        state = tools.consumer_groups("--describe", "--group", group, "--state")
        assert "Stable" in state and "range" in state
        reader.consumer.close()
        about = ("--group", group, "--topic", filled)
        tools.consumer_groups("--reset-offsets", *about, "--to-offset", "2", "--execute")
        assert committed(broker, group, filled) == dict.fromkeys(range(PARTITIONS), 2)
        tools.consumer_groups("--delete-offsets", *about)
        assert set(committed(broker, group, filled).values()) == {-1001}
        tools.consumer_groups("--delete", "--group", group)
        assert group not in tools.consumer_groups("--list").splitlines()

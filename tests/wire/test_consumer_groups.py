"""Groups of the consumer protocol (KIP-848) with real clients: confluent-kafka's and Apache Kafka's own consumer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.kafka.apache_kafka import ApacheKafka, KafkaTools
from tests.kafka.java_program import JavaProgram
from tests.node_process import NodeProcess
from tests.odradek_process import OdradekProcess
from tests.wire.test_groups import PARTITIONS, RECORDS, Reader, poll_until, write

QUICK = {"group.consumer.min.heartbeat.interval.ms": "200", "group.consumer.heartbeat.interval.ms": "200"}


@pytest.fixture(scope="module", params=["odradek", pytest.param("kafka", marks=pytest.mark.kafka)])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """Whose members are heard of more often than usual, so that nobody waits for long."""
    directory = tmp_path_factory.mktemp(request.param)
    node: NodeProcess
    if request.param == "kafka":
        node = ApacheKafka(request.getfixturevalue("apache_kafka_libs"), directory, properties=QUICK)
    else:
        node = OdradekProcess(directory, properties=QUICK)
    try:
        yield node.start()
    finally:
        node.remove()


@pytest.fixture
def admin(broker: NodeProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def filled(broker: NodeProcess, admin: AdminClient, topic: str) -> str:
    """A topic of four partitions with ten records in each."""
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    write(broker, topic, 0, RECORDS)
    return topic


class NewReader(Reader):
    """By the consumer protocol."""

    def __init__(self, broker: NodeProcess, group: str, topic: str, **settings: Any) -> None:
        super().__init__(broker, group, topic, group_protocol="consumer", **settings)


class TestConfluent:
    def test_members_share_commit_and_come_back(self, broker: NodeProcess, filled: str) -> None:
        readers = [NewReader(broker, filled, filled) for _ in range(2)]
        poll_until(readers, lambda: [len(one.share) for one in readers] == [2, 2], "both to have two")
        poll_until(readers, lambda: len({*readers[0].read, *readers[1].read}) == RECORDS, "all records")
        for reader in readers:
            reader.consumer.commit(asynchronous=False)
        readers.pop().consumer.close()
        poll_until(readers, lambda: len(readers[0].share) == PARTITIONS, "the one that is left to have all")
        write(broker, filled, RECORDS, RECORDS + 8)
        before = len(readers[0].read)
        poll_until(readers, lambda: len(readers[0].read) == before + 8, "what came later, and nothing else")
        readers[0].consumer.close()

    def test_one_who_comes_takes_only_what_it_gets(self, broker: NodeProcess, filled: str) -> None:
        first = NewReader(broker, filled, filled)
        poll_until([first], lambda: len(first.share) == PARTITIONS, "the first to have all")
        second = NewReader(broker, filled, filled)
        poll_until([first, second], lambda: len(second.share) == 2, "the second to have two")
        assert sorted(first.revoked) == second.share
        first.consumer.close()
        second.consumer.close()

    def test_a_static_member_restarts_without_anybody_else_noticing(self, broker: NodeProcess, filled: str) -> None:
        readers = [NewReader(broker, filled, filled, group_instance_id=f"place-{number}") for number in range(2)]
        poll_until(readers, lambda: [len(one.share) for one in readers] == [2, 2], "both to have two")
        share = readers[0].share
        readers[1].revoked.clear()
        readers[0].consumer.close()
        readers[0] = NewReader(broker, filled, filled, group_instance_id="place-0")
        poll_until(readers, lambda: readers[0].share == share, "what it had")
        assert not readers[1].revoked
        for reader in readers:
            reader.consumer.close()

    def test_a_topic_grows(self, broker: NodeProcess, filled: str, admin: AdminClient) -> None:
        reader = NewReader(broker, filled, filled)
        poll_until([reader], lambda: len(reader.share) == PARTITIONS, "all of it")
        admin.create_partitions([NewPartitions(filled, PARTITIONS + 2)])[filled].result(30)
        poll_until([reader], lambda: len(reader.share) == PARTITIONS + 2, "what came later too")
        reader.consumer.close()

    def test_groups_change_over_while_they_run(self, broker: NodeProcess, filled: str, admin: AdminClient) -> None:
        """Members of one protocol after the other, and back: offsets and assignments are kept."""
        classic = Reader(broker, filled, filled, partition_assignment_strategy="cooperative-sticky")
        poll_until([classic], lambda: len(classic.share) == PARTITIONS, "the classic member to have all")
        consumer = NewReader(broker, filled, filled)
        both = [classic, consumer]
        poll_until(both, lambda: [len(one.share) for one in both] == [2, 2], "members of both protocols to share")
        poll_until(both, lambda: len({*classic.read, *consumer.read}) == RECORDS, "all records")
        for reader in both:
            reader.consumer.commit(asynchronous=False)
        consumer.consumer.close()
        poll_until([classic], lambda: len(classic.share) == PARTITIONS, "the classic member to have all again")
        before = len(classic.read)
        write(broker, filled, RECORDS, RECORDS + 8)
        poll_until([classic], lambda: len(classic.read) == before + 8, "what came later, and nothing else")
        classic.consumer.close()


@pytest.fixture(scope="module")
def java_members(apache_kafka_libs: Path) -> Iterator[JavaProgram]:
    with JavaProgram(apache_kafka_libs, "GroupMembers") as program:
        yield program


class TestJava:
    def test_members_share_and_come_back(self, broker: NodeProcess, filled: str, java_members: JavaProgram) -> None:
        where = (broker.bootstrap, filled, filled)
        assert java_members.ask("read", *where, 2, RECORDS, "consumer") == [f"records {RECORDS} shares 2,2"]
        write(broker, filled, 0, 6)
        assert java_members.ask("read", *where, 1, 6, "consumer") == ["records 6 shares 4"]

    def test_a_regular_expression(self, broker: NodeProcess, filled: str, java_members: JavaProgram) -> None:
        told = java_members.ask("read", broker.bootstrap, filled, f"~{filled[:-1]}.", 1, RECORDS, "consumer")
        assert told == [f"records {RECORDS} shares {PARTITIONS}"]

    def test_the_tool_describes_it(self, broker: NodeProcess, filled: str, apache_kafka_libs: Path) -> None:
        reader = NewReader(broker, filled, filled)
        poll_until([reader], lambda: len(reader.share) == PARTITIONS, "all of it")
        tools = KafkaTools(apache_kafka_libs, broker.bootstrap)
        told = tools.consumer_groups("--describe", "--group", filled, "--state", "--verbose")
        assert filled in told and "Stable" in told and "uniform" in told
        reader.consumer.close()

"""Groups of the consumer protocol (KIP-848) with real clients: confluent-kafka's and Apache Kafka's own consumer."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupType
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.kafka.apache_kafka import REFERENCE, ApacheKafka, KafkaTools
from tests.kafka.java_program import JavaProgram
from tests.node_process import NodeProcess
from tests.odradek_process import OdradekProcess
from tests.raw_wire import RawConnection
from tests.wire.plain_requests import create_topic, until
from tests.wire.test_groups import PARTITIONS, RECORDS, Reader, committed, numbers, poll_until, write

TOPIC = "shared-topic"
GROUP = "unchanged-group"
QUICK = {"group.consumer.min.heartbeat.interval.ms": "200", "group.consumer.heartbeat.interval.ms": "200"}


@pytest.fixture(scope="module", params=["odradek", pytest.param("kafka", marks=REFERENCE)])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A broker with short heartbeat intervals, so that rebalances are quick."""
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
    """A reader that uses the consumer protocol."""

    def __init__(self, broker: NodeProcess, group: str, topic: str, **settings: Any) -> None:
        super().__init__(broker, group, topic, group_protocol="consumer", **settings)


def are_at_the_end(readers: Sequence[Reader]) -> bool:
    """Whether each reader is at the end of its own partitions: only then has it offsets of all of them to commit."""
    positions = [one for reader in readers for one in reader.consumer.position(reader.consumer.assignment())]
    return [one.offset for one in positions] == [RECORDS // PARTITIONS] * PARTITIONS


class TestConfluent:
    def test_members_share_partitions_commit_and_resume(self, broker: NodeProcess, filled: str) -> None:
        readers = [NewReader(broker, filled, filled) for _ in range(2)]
        poll_until(readers, lambda: [len(one.share) for one in readers] == [2, 2], "two partitions for each")
        poll_until(readers, lambda: are_at_the_end(readers), "both to reach the end")
        assert {*readers[0].read, *readers[1].read} == set(range(RECORDS))
        for reader in readers:
            reader.consumer.commit(asynchronous=False)
        readers.pop().consumer.close()
        poll_until(readers, lambda: len(readers[0].share) == PARTITIONS, "all partitions for the remaining member")
        write(broker, filled, RECORDS, RECORDS + 8)
        before = len(readers[0].read)
        poll_until(readers, lambda: len(readers[0].read) == before + 8, "exactly the later records")
        readers[0].consumer.close()

    def test_new_member_gets_only_the_revoked_partitions(self, broker: NodeProcess, filled: str) -> None:
        first = NewReader(broker, filled, filled)
        poll_until([first], lambda: len(first.share) == PARTITIONS, "all partitions for the first member")
        second = NewReader(broker, filled, filled)
        poll_until([first, second], lambda: len(second.share) == 2, "two partitions for the second member")
        assert sorted(first.revoked) == second.share
        first.consumer.close()
        second.consumer.close()

    def test_static_member_restart_revokes_no_partitions_of_others(self, broker: NodeProcess, filled: str) -> None:
        readers = [NewReader(broker, filled, filled, group_instance_id=f"place-{number}") for number in range(2)]
        poll_until(readers, lambda: [len(one.share) for one in readers] == [2, 2], "two partitions for each")
        share = readers[0].share
        readers[1].revoked.clear()
        readers[0].consumer.close()
        readers[0] = NewReader(broker, filled, filled, group_instance_id="place-0")
        poll_until(readers, lambda: readers[0].share == share, "its former partitions")
        assert not readers[1].revoked
        for reader in readers:
            reader.consumer.close()

    def test_new_partitions_of_a_topic_are_assigned(self, broker: NodeProcess, filled: str, admin: AdminClient) -> None:
        reader = NewReader(broker, filled, filled)
        poll_until([reader], lambda: len(reader.share) == PARTITIONS, "all partitions")
        admin.create_partitions([NewPartitions(filled, PARTITIONS + 2)])[filled].result(30)
        poll_until([reader], lambda: len(reader.share) == PARTITIONS + 2, "the new partitions")
        reader.consumer.close()

    def test_running_group_migrates_between_protocols(
        self, broker: NodeProcess, filled: str, admin: AdminClient
    ) -> None:
        """Members of the classic protocol, then of both, then back: offsets are kept."""
        classic = Reader(broker, filled, filled, partition_assignment_strategy="cooperative-sticky")
        poll_until([classic], lambda: len(classic.share) == PARTITIONS, "all partitions for the classic member")
        consumer = NewReader(broker, filled, filled)
        both = [classic, consumer]
        poll_until(
            both, lambda: [len(one.share) for one in both] == [2, 2], "two partitions for a member of each protocol"
        )
        poll_until(both, lambda: are_at_the_end(both), "both to reach the end")
        assert {*classic.read, *consumer.read} == set(range(RECORDS))
        for reader in both:
            reader.consumer.commit(asynchronous=False)
        consumer.consumer.close()
        poll_until([classic], lambda: len(classic.share) == PARTITIONS, "all partitions for the classic member again")
        before = len(classic.read)
        write(broker, filled, RECORDS, RECORDS + 8)
        poll_until([classic], lambda: len(classic.read) == before + 8, "exactly the later records")
        classic.consumer.close()


@pytest.fixture(scope="module")
def java_members(apache_kafka_libs: Path) -> Iterator[JavaProgram]:
    with JavaProgram(apache_kafka_libs, "GroupMembers") as program:
        yield program


class TestJava:
    def test_members_share_partitions_and_resume(
        self, broker: NodeProcess, filled: str, java_members: JavaProgram
    ) -> None:
        where = (broker.bootstrap, filled, filled)
        assert java_members.request("read", *where, 2, RECORDS, "consumer") == [f"records {RECORDS} shares 2,2"]
        write(broker, filled, 0, 6)
        assert java_members.request("read", *where, 1, 6, "consumer") == ["records 6 shares 4"]

    def test_regular_expression_subscription(self, broker: NodeProcess, filled: str, java_members: JavaProgram) -> None:
        output = java_members.request("read", broker.bootstrap, filled, f"~{filled[:-1]}.", 1, RECORDS, "consumer")
        assert output == [f"records {RECORDS} shares {PARTITIONS}"]

    def test_console_consumer_commits_in_a_consumer_protocol_group(
        self, broker: NodeProcess, filled: str, admin: AdminClient, tools: KafkaTools
    ) -> None:
        about = ("--topic", filled, "--group", filled, "--command-property", "group.protocol=consumer")
        read = tools.console_consumer(
            *about, "--from-beginning", "--max-messages", str(RECORDS), "--timeout-ms", "20000"
        )
        assert sorted(numbers(read)) == list(range(RECORDS))
        (listed,) = (one for one in admin.list_consumer_groups().result(20).valid if one.group_id == filled)
        assert listed.type is ConsumerGroupType.CONSUMER
        assert committed(broker, filled, filled) == dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)

    def test_consumer_groups_tool_describes_the_group(
        self, broker: NodeProcess, filled: str, apache_kafka_libs: Path
    ) -> None:
        reader = NewReader(broker, filled, filled)
        poll_until([reader], lambda: len(reader.share) == PARTITIONS, "all partitions")
        tools = KafkaTools(apache_kafka_libs, broker.bootstrap)
        output = tools.consumer_groups("--describe", "--group", filled, "--state", "--verbose")
        assert filled in output and "Stable" in output and "uniform" in output
        reader.consumer.close()


@pytest.mark.kafka
@pytest.mark.parametrize("first", ["kafka", pytest.param("odradek", marks=pytest.mark.tier("proof"))])
def test_kafka_and_odradek_load_each_others_consumer_groups(
    tmp_path: Path, apache_kafka_libs: Path, first: str
) -> None:
    """A group of two members moves from one broker's coordinator to the other's and back; no member has to rejoin."""
    brokers: list[NodeProcess] = [OdradekProcess(tmp_path), ApacheKafka(apache_kafka_libs, tmp_path)]
    if first == "kafka":
        brokers.reverse()
    writer, reader = brokers
    try:
        with RawConnection(writer.start().port) as connection:
            create_topic(connection, TOPIC, partitions=4)
            until(lambda: has_coordinator(connection), 30, what="a coordinator")
            members = [RawMember("one"), RawMember("two", regex=f"{TOPIC[:-1]}.")]
            wait_for_assignments(connection, members)
            before = describe_group(connection)
        writer.stop()
        reader.port, reader.controller_port = writer.port, writer.controller_port
        for broker in (reader, writer):
            with RawConnection(broker.start().port) as connection:
                until(lambda: has_coordinator(connection), 30, what="a coordinator")
                assert describe_group(connection) == before
                for member in members:
                    assert member.heartbeat(connection).assignment is None
            broker.stop()
    finally:
        for broker in brokers:
            broker.remove()


class RawMember:
    def __init__(self, member_id: str, regex: str | None = None) -> None:
        self._member_id = member_id
        self._regex = regex
        self._epoch = 0
        self._owned: list[Any] = []

    def heartbeat(self, connection: RawConnection) -> Any:
        is_joining = self._epoch == 0
        response = connection.request(
            Api.CONSUMER_GROUP_HEARTBEAT,
            1,
            {
                "group_id": GROUP,
                "member_id": self._member_id,
                "member_epoch": self._epoch,
                "rebalance_timeout": 30_000 if is_joining else -1,
                "subscribed_topic_names": [TOPIC] if is_joining and self._regex is None else None,
                "subscribed_topic_regex": self._regex if is_joining else None,
                "topic_partitions": self._owned,
            },
        )
        assert response.error_code is ErrorCode.none, response.error_message
        self._epoch = response.member_epoch
        if response.assignment is not None:
            self._owned = [
                {"topic_id": one.topic_id, "partitions": list(one.partitions)}
                for one in response.assignment.topic_partitions
            ]
        return response

    @property
    def partition_count(self) -> int:
        return sum(len(one["partitions"]) for one in self._owned)


def wait_for_assignments(connection: RawConnection, members: list[RawMember]) -> None:
    def are_assigned() -> bool:
        responses = [member.heartbeat(connection) for member in members]
        is_shared = all(member.partition_count == 2 for member in members)
        return is_shared and all(response.assignment is None for response in responses)

    until(are_assigned, 30, what="both to have two partitions")


def describe_group(connection: RawConnection) -> Any:
    (group,) = connection.request(Api.CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": [GROUP]}).groups
    assert group.group_state == "Stable"
    return group.group_epoch, group.assignment_epoch, sorted(map(repr, group.members))


def has_coordinator(connection: RawConnection) -> bool:
    (found,) = connection.request(Api.FIND_COORDINATOR, 6, {"coordinator_keys": [GROUP]}).coordinators
    (state,) = connection.request(Api.DESCRIBE_GROUPS, 5, {"groups": [GROUP]}).groups
    return found.error_code is ErrorCode.none and state.error_code is ErrorCode.none

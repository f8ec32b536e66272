"""Random histories of groups give the same responses and records with Apache Kafka's coordinator and Odradek's.

Clients mostly behave normally, and sometimes arbitrarily. The test controls the time and the commits of the log.
It allows two intentional differences: Odradek also responds to a pending request that Kafka never responds to, because
the same member has sent another one or has left; and members are not listed in the order of a hash map.
"""

import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.groups.commands import (
    CommitOffsets,
    CommitOffsetsInTransaction,
    CommitResponse,
    ConsumerGroupHeartbeatResponse,
    DeleteGroups,
    DeleteOffsets,
    FetchOffsets,
    FetchOffsetsResponse,
    Heartbeat,
    HeartbeatResponse,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    LeavingMember,
    MemberProtocol,
    PartitionOffset,
    Response,
    SyncGroup,
    SyncResponse,
    TopicOffsets,
    TopicPartitions,
)
from odradek.core.groups.coordinator import Command
from odradek.core.groups.records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupTargetAssignmentMemberValue,
    CurrentPartitions,
    GroupMetadataValue,
    GroupRecord,
    TargetPartitions,
)
from odradek.core.groups.settings import GroupSettings
from tests.kafka.kafkas_groups import KafkasGroups, Step, uuid_of
from tests.unit.core.groups.coordinator_harness import CoordinatorHarness

HISTORIES = 60
STEPS = 250
START_MS = 1_700_000_000_000
GROUPS = ["orders", "billing"]
TOPICS = ["a", "b"]
GONE = (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id)
CLIENT_HOST = "localhost/127.0.0.1"


@pytest.fixture(scope="module")
def kafkas_groups(apache_kafka_libs: Path) -> Iterator[KafkasGroups]:
    with KafkasGroups(apache_kafka_libs, GroupSettings(), START_MS) as kafka:
        yield kafka


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_random_group_histories_equal_kafkas(kafkas_groups: KafkasGroups, seed: int) -> None:
    History(kafkas_groups, random.Random(seed)).run(STEPS)


@pytest.mark.parametrize("version", [5, 8, 9])
def test_returning_static_leader_causes_no_rebalance(kafkas_groups: KafkasGroups, version: int) -> None:
    history = History(kafkas_groups, random.Random(1))
    leader, other = history.stable_pair(version)
    leader.member_id = ""
    response = history.join_as(leader, [MemberProtocol("range", subscription("a"))])
    assert (response.error, response.generation_id) == (ErrorCode.none, 1)
    assert response.skip_assignment == (version == 9) == bool(response.members)
    assert (response.leader == leader.member_id) == (version == 9)
    history.send(SyncGroup("orders", 1, leader.member_id, leader.instance_id, "consumer", "range", []))
    history.send(Heartbeat("orders", 1, other.member_id, other.instance_id))
    history.look()


def test_returning_static_member_with_other_protocols_equals_kafkas(kafkas_groups: KafkasGroups) -> None:
    history = History(kafkas_groups, random.Random(1))
    leader, other = history.stable_pair(8)
    other.member_id = ""
    protocols = [MemberProtocol("range", subscription("b")), MemberProtocol("sticky", subscription("b"))]
    assert history.join_as(other, protocols).generation_id == 1
    other.member_id = ""
    history.join_as(other, [MemberProtocol("sticky", subscription("b"))], has_response=False)
    history.pass_time_by(60_000)
    history.look()
    history.send(Heartbeat("orders", 1, leader.member_id, leader.instance_id))


def test_replaced_static_member_is_fenced(kafkas_groups: KafkasGroups) -> None:
    history = History(kafkas_groups, random.Random(1))
    _, other = history.stable_pair(9)
    former_id, other.member_id = other.member_id, ""
    history.join_as(other, [MemberProtocol("range", subscription("a"))])
    for member_id in (former_id, other.member_id):
        history.send(Heartbeat("orders", 1, member_id, other.instance_id))
        history.send(CommitOffsets(9, "orders", 1, member_id, other.instance_id, history.some_offsets()))
        history.send(SyncGroup("orders", 1, member_id, other.instance_id, None, None, []))
        history.send(LeaveGroup("orders", [LeavingMember(member_id, other.instance_id)]))
    history.pass_time_by(70_000)
    history.look()


class Client:
    def __init__(self, number: int, rng: random.Random) -> None:
        self.client_id = f"client{number}"
        self.group_id = rng.choice(GROUPS)
        self.instance_id = f"static{number}" if rng.random() < 0.35 else None
        self.version = rng.choice([0, 3, 5, 8, 9])
        # No two sessions expire at once, because the order would depend on a hash map.
        self.session_timeout_ms = rng.choice([6_000, 10_000, 30_000]) + number
        self.rebalance_timeout_ms = rng.choice([5_000, 20_000, 60_000])
        self.member_id = ""
        self.generation_id = -1
        self.leads: tuple[str, ...] = ()
        self.protocol: str | None = None
        self.is_to_sync = False
        self.holds: dict[str, tuple[int, ...]] = {}


def subscription(*topics: str) -> bytes:
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 1, len(topics)) + names + struct.pack(">i", -1) + struct.pack(">i", 0)


class History:
    def __init__(self, kafka: KafkasGroups, rng: random.Random) -> None:
        self.rng = rng
        settings = GroupSettings(
            classic_group_max_size=rng.choice([3, 1000]),
            offset_metadata_max_bytes=10,
            offsets_retention_ms=60_000,
        )
        self.kafka = kafka
        kafka.start(settings, START_MS)
        self.next_uuid = UUID(int=0)
        self.ours = CoordinatorHarness(settings, new_uuid=lambda: self.next_uuid, now_ms=START_MS, loads_all=True)
        self.clients = [Client(number, rng) for number in range(6)]
        self.requesters: dict[int, Client] = {}
        self.token = 0
        self.seen_ids: set[str] = set()
        self.joined: dict[str, JoinResponse] = {}
        self.story: list[str] = []

    def run(self, steps: int) -> None:
        actions = {
            self.behave: 80,
            self.join: 6,
            self.sync: 6,
            self.heartbeat: 6,
            self.leave: 3,
            self.commit_offsets: 10,
            self.commit_in_transaction: 4,
            self.end_transaction: 3,
            self.fetch: 6,
            self.delete_offsets: 2,
            self.delete_groups: 2,
            self.look: 3,
            self.expire: 1,
            self.restart: 4,
            self.failover: 2,
            self.pass_time: 12,
            self.commit: 30,
        }
        for _ in range(steps):
            (action,) = self.rng.choices(list(actions), list(actions.values()))
            action()

    # ---- scripts

    def stable_pair(self, version: int) -> tuple[Client, Client]:
        """A leader and another member, both static, in generation 1."""
        pair = self.clients[0], self.clients[1]
        for number, client in enumerate(pair):
            client.version, client.instance_id, client.group_id = version, f"static{number}", "orders"
            protocols = [MemberProtocol(name, subscription("a")) for name in ("range", "sticky")]
            self.join_as(client, protocols, has_response=False)
        self.pass_time_by(10_000)
        for client in reversed(pair):
            assignment = [(member_id, member_id[:7].encode()) for member_id in client.leads]
            self.send(
                SyncGroup("orders", 1, client.member_id, client.instance_id, "consumer", "range", assignment), client
            )
        self.commit()
        self.look()
        assert pair[0].leads
        return pair

    def join_as(self, client: Client, protocols: list[MemberProtocol], *, has_response: bool = True) -> JoinResponse:
        command = JoinGroup(
            client.version,
            client.group_id,
            client.member_id,
            client.instance_id,
            client.client_id,
            CLIENT_HOST,
            client.session_timeout_ms,
            client.rebalance_timeout_ms,
            "consumer",
            tuple(protocols),
        )
        self.send(command, client)
        self.commit()
        response = self.joined.pop(client.client_id, None)
        assert (response is not None) == has_response
        return response or JoinResponse(ErrorCode.none, "")

    # ---- what clients do

    def behave(self) -> None:
        """Let a client take its next normal step."""
        client = self.rng.choice(self.clients)
        if not client.member_id or client.generation_id < 0:
            self.join(client)
        elif client.is_to_sync:
            self.sync(client)
        else:
            self.heartbeat(client)

    def join(self, client: Client | None = None) -> None:
        client = client or self.rng.choice(self.clients)
        names = self.rng.sample(["range", "roundrobin", "sticky"], self.rng.choice([1, 2, 3, 3]))
        if self.rng.random() < 0.9 and "range" not in names:
            names.append("range")
        metadata = subscription(*self.rng.sample(TOPICS, self.rng.choice([0, 1, 1, 2])))
        if self.rng.random() < 0.03:
            metadata = b"\0"
        command = JoinGroup(
            client.version,
            client.group_id,
            self.odd(client.member_id, ["", "nobody"]),
            self.odd(client.instance_id, ["static0"] if client.instance_id else []),
            client.client_id,
            CLIENT_HOST,
            client.session_timeout_ms,
            client.rebalance_timeout_ms,
            self.odd("consumer", ["connect", ""]),
            tuple(MemberProtocol(name, metadata) for name in names),
        )
        if command.member_id and command.instance_id and command.member_id.startswith("client"):
            return  # A pending dynamic member that becomes static: Kafka fails at it.
        self.send(command, client)
        if command.instance_id is not None:
            self.commit()

    def sync(self, client: Client | None = None) -> None:
        client = client or self.rng.choice(self.clients)
        client.is_to_sync = False
        command = SyncGroup(
            client.group_id,
            self.odd(client.generation_id, [0, client.generation_id - 1, client.generation_id + 1]),
            self.odd(client.member_id, ["", "nobody"]),
            self.odd(client.instance_id, ["static0", None]),
            self.odd("consumer", [None, "connect"]),
            self.odd(client.protocol, [None, "nothing"]),
            [(member_id, member_id[:8].encode()) for member_id in client.leads if self.rng.random() < 0.95],
        )
        self.send(command, client)

    def heartbeat(self, client: Client | None = None) -> None:
        client = client or self.rng.choice(self.clients)
        generation_id = self.odd(client.generation_id, [0, client.generation_id - 1, client.generation_id + 1])
        member_id = self.odd(client.member_id, ["", "nobody"])
        instance_id = self.odd(client.instance_id, ["static0"])
        self.send(Heartbeat(client.group_id, generation_id, member_id, instance_id), client)

    def restart(self) -> None:
        """Restart a client, which keeps only its name."""
        client = self.rng.choice(self.clients)
        client.member_id, client.generation_id, client.is_to_sync = "", -1, False

    def leave(self) -> None:
        client = self.rng.choice(self.clients)
        others = [one for one in self.clients if self.rng.random() < 0.1]
        members = [
            LeavingMember(self.odd(one.member_id, ["", "nobody"]), self.odd(one.instance_id, ["static0", None]))
            for one in [client, *others]
        ]
        self.send(LeaveGroup(client.group_id, members))

    # ---- offsets

    def commit_offsets(self) -> None:
        client = self.rng.choice(self.clients)
        generation_id = self.odd(client.generation_id, [-1, 0, client.generation_id + 1])
        member_id = self.odd(client.member_id, ["", "nobody"])
        instance_id = self.odd(client.instance_id, ["static0", None])
        version = self.rng.choice([5, 8, 9])
        group_id = self.odd(client.group_id, ["simple", ""])
        self.send(CommitOffsets(version, group_id, generation_id, member_id, instance_id, self.some_offsets()))

    def commit_in_transaction(self) -> None:
        client = self.rng.choice(self.clients)
        generation_id = self.odd(client.generation_id, [-1, 0, client.generation_id + 1])
        member_id = self.odd(client.member_id, ["", "nobody"])
        instance_id = self.odd(client.instance_id, ["static0", None])
        producer_id = self.rng.randrange(2)
        group_id = self.odd(client.group_id, ["simple"])
        self.send(
            CommitOffsetsInTransaction(
                group_id, generation_id, member_id, instance_id, producer_id, 0, self.some_offsets()
            )
        )

    def end_transaction(self) -> None:
        producer_id, commits = self.rng.randrange(2), self.rng.random() < 0.6
        self.kafka.end_transaction(producer_id, commits=commits)
        self.ours.end_transaction(producer_id, commits=commits)
        self.story.append(f"end of {producer_id}: {commits}")

    def some_offsets(self) -> list[TopicOffsets]:
        notes = [None, "", "note", "ten chars!", "eleven char", "💡💡💡💡💡", "💡💡💡💡💡!"]
        topics = [
            TopicOffsets(
                topic,
                [
                    PartitionOffset(
                        partition, self.rng.randrange(1000), self.rng.choice([-1, 3]), self.rng.choice(notes)
                    )
                    for partition in self.rng.sample(range(3), self.rng.randrange(1, 3))
                ],
            )
            for topic in self.rng.sample(TOPICS, self.rng.randrange(1, 3))
        ]
        # A group without records exists for Kafka but not for Odradek, so at least one offset is always committed.
        return [*topics, TopicOffsets("always", [PartitionOffset(0, 1)])]

    def some_partitions(self) -> list[TopicPartitions]:
        return [TopicPartitions(topic, self.rng.sample(range(4), 2)) for topic in self.rng.sample(["a", "b", "c"], 2)]

    def fetch(self) -> None:
        group_id = self.rng.choice([*GROUPS, "simple", "absent"])
        topics = None if self.rng.random() < 0.4 else self.some_partitions()
        self.send(FetchOffsets(group_id, topics, require_stable=self.rng.random() < 0.5))

    def delete_offsets(self) -> None:
        self.send(DeleteOffsets(self.rng.choice([*GROUPS, "simple", "absent"]), self.some_partitions()))

    def delete_groups(self) -> None:
        self.send(DeleteGroups(self.rng.sample([*GROUPS, "simple", "absent"], 2)))

    def expire(self) -> None:
        expected = self.kafka.expire_offsets(GROUPS[0])
        self.ours.take(self.ours.coordinator.expire_offsets(self.ours.now_ms))
        self.compare("expiry", expected)
        self.commit()

    # ---- environment

    def look(self) -> None:
        self.commit()
        version = self.rng.choice([5, 6])
        names = [*GROUPS, "simple", "absent"]
        described = self.kafka.describe_groups(names, version)
        ours = self.ours.coordinator.describe_groups(names, version)
        assert [one._replace(members=tuple(sorted(one.members))) for one in ours] == list(described), (
            self.recent_story()
        )
        states = self.rng.choice([[], ["stable"], ["Empty", "preparingrebalance"], ["nonsense"]])
        kinds = self.rng.choice([[], ["classic"], ["Consumer"]])
        listed = self.kafka.list_groups(states, kinds)
        assert sorted(self.ours.coordinator.list_groups(states, kinds)) == listed, self.recent_story()

    def failover(self) -> None:
        """Another broker becomes the leader and loads the committed records."""
        self.kafka.failover()
        self.ours = self.ours.failover()
        self.requesters.clear()
        self.story.append("failover")
        self.look()

    def pass_time(self) -> None:
        self.pass_time_by(self.rng.choice([1, 1, 500, 500, 2_000, 3_000, 7_000, 20_000]))

    def pass_time_by(self, passed_ms: int) -> None:
        end_ms = self.ours.now_ms + passed_ms
        while (at_ms := self.ours.coordinator.next_deadline_ms()) is not None and at_ms <= end_ms:
            self.move_to(max(at_ms, self.ours.now_ms))
        self.move_to(end_ms)

    def move_to(self, now_ms: int) -> None:
        self.kafka.now_ms = self.ours.now_ms = now_ms
        expected = self.kafka.run_deadlines(GROUPS[0])
        self.ours.run_deadlines()
        self.compare(f"time {now_ms - START_MS}", expected)

    def commit(self) -> None:
        expected = self.kafka.commit(GROUPS[0])
        self.ours.commit()
        self.compare("commit", expected)

    # ---- comparing

    def odd(self, usual: Any, others: list[Any]) -> Any:
        return self.rng.choice(others) if others and self.rng.random() < 0.06 else usual

    def send(self, command: Command, client: Client | None = None) -> None:
        self.token += 1
        if client is not None:
            self.requesters[self.token] = client
        expected = self.kafka.send(command, self.token)
        if isinstance(command, JoinGroup):
            self.next_uuid = self.new_id(command, expected)
        self.ours.send(command, self.token)
        self.compare(f"{self.token}: {command}", expected)

    def new_id(self, command: JoinGroup, step: Step) -> UUID:
        """The UUID that Kafka has generated for this member, if any."""
        prefix = f"{command.client_id if command.instance_id is None else command.instance_id}-"
        ids = {response.member_id for response in step.responses.values() if isinstance(response, JoinResponse)}
        new = [one for one in ids | set(step.member_ids) if one.startswith(prefix) and one not in self.seen_ids]
        self.seen_ids.update(new)
        return uuid_of(new[0]) if new else UUID(int=self.rng.getrandbits(128))

    def compare(self, what: str, expected: Step) -> None:
        self.story.append(what)
        records, self.ours.appended = self.ours.appended, []
        assert sorted(map(comparable, records), key=str) == sorted(map(comparable, expected.records), key=str), (
            self.recent_story()
        )
        responses = {token: sorted_members(response) for token, response in self.ours.drain_responses()}
        for token in responses.keys() - expected.responses.keys():
            response = responses.pop(token)
            assert isinstance(response, JoinResponse | SyncResponse), self.recent_story()
            assert response.error in (ErrorCode.rebalance_in_progress, ErrorCode.unknown_member_id), self.recent_story()
        assert responses == {token: sorted_members(response) for token, response in expected.responses.items()}, (
            self.recent_story()
        )
        for token, response in responses.items():
            self.story.append(f"    {token} <- {response}")
            self.learn_of(token, response)

    def learn_of(self, token: int, response: Response) -> None:
        if token in self.requesters:
            self.learn(self.requesters[token], response)

    def learn(self, client: Client, response: Response) -> None:
        if isinstance(response, JoinResponse):
            self.joined[client.client_id] = response
        if isinstance(response, JoinResponse | SyncResponse | HeartbeatResponse) and response.error in GONE:
            client.member_id, client.generation_id = "", -1
        elif isinstance(response, JoinResponse):
            client.member_id = response.member_id
        elif (
            isinstance(response, SyncResponse | HeartbeatResponse) and response.error is ErrorCode.rebalance_in_progress
        ):
            client.generation_id = -1
        if isinstance(response, JoinResponse) and response.error is ErrorCode.none:
            client.is_to_sync = True
            client.generation_id = response.generation_id
            client.protocol = response.protocol_name
            client.leads = tuple(member.member_id for member in response.members)

    def recent_story(self) -> str:
        return "\n".join(self.story[-60:])


def comparable(record: GroupRecord) -> GroupRecord:
    """The record without the order in which Kafka iterates over members, topics and partitions."""
    if isinstance(record.value, ConsumerGroupTargetAssignmentMemberValue):
        target = sorted(map(_in_order, record.value.topic_partitions), key=str)
        return record._replace(value=ConsumerGroupTargetAssignmentMemberValue(topic_partitions=tuple(target)))
    if isinstance(record.value, ConsumerGroupCurrentMemberAssignmentValue):
        current = record.value
        return record._replace(
            value=ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=current.member_epoch,
                previous_member_epoch=current.previous_member_epoch,
                state=current.state,
                assigned_partitions=_held_in_order(current.assigned_partitions),
                partitions_pending_revocation=_held_in_order(current.partitions_pending_revocation),
            )
        )
    if isinstance(record.value, GroupMetadataValue):
        value = record.value
        members = tuple(sorted(value.members, key=lambda member: member.member_id))
        sorted_value = GroupMetadataValue(
            protocol_type=value.protocol_type,
            generation=value.generation,
            protocol=value.protocol,
            leader=value.leader,
            current_state_timestamp=value.current_state_timestamp,
            members=members,
        )
        return record._replace(value=sorted_value)
    return record


def _in_order(target: TargetPartitions) -> TargetPartitions:
    return TargetPartitions(topic_id=target.topic_id, partitions=tuple(sorted(target.partitions)))


def _held_in_order(topics: tuple[CurrentPartitions, ...]) -> tuple[CurrentPartitions, ...]:
    held = []
    for one in topics:
        assert one.assignment_epochs is not None
        pairs = sorted(zip(one.partitions, one.assignment_epochs, strict=True))
        partitions, epochs = zip(*pairs, strict=True)
        held.append(CurrentPartitions(topic_id=one.topic_id, partitions=partitions, assignment_epochs=epochs))
    return tuple(sorted(held, key=str))


def sorted_members(response: Response) -> Response:
    if isinstance(response, JoinResponse):
        return response._replace(members=tuple(sorted(response.members)))
    if isinstance(response, ConsumerGroupHeartbeatResponse):
        if response.error is ErrorCode.unknown_server_error:
            # The message of a Java exception, which Odradek does not have.
            return response._replace(error_message=None)
        if response.assignment is None:
            return response
        topics = (one._replace(partitions=tuple(sorted(one.partitions))) for one in response.assignment)
        return response._replace(assignment=tuple(sorted(topics)))
    if isinstance(response, CommitResponse):
        return CommitResponse(tuple(one._replace(topic_id=None) for one in response.topics))
    if isinstance(response, FetchOffsetsResponse):
        fetched = (one._replace(partitions=tuple(sorted(one.partitions))) for one in response.topics)
        return response._replace(topics=tuple(sorted(fetched)))
    return response

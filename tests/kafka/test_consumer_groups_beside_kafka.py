"""Random histories of consumer groups give the same responses and records with Kafka's coordinator and Odradek's.

Members of both protocols join the same groups, so that these are converted repeatedly, while topics are created, get
partitions and are deleted. Kafka resolves regular expressions in the background when the test advances the time.
"""

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.groups.commands import (
    CommitOffsets,
    CommitOffsetsInTransaction,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResponse,
    DescribedConsumerGroup,
    FetchOffsets,
    JoinGroup,
    MemberProtocol,
    Response,
    SyncGroup,
    SyncResponse,
    TopicIdPartitions,
    TopicOffsets,
)
from odradek.core.groups.consumer_group import ConsumerGroup
from odradek.core.groups.coordinator import Command
from odradek.core.groups.group_configs import GroupConfigs
from odradek.core.groups.settings import Bounds, GroupSettings, MigrationPolicy
from odradek.core.groups.subscription import UnreadableSubscription, read_assignment, write_assignment
from tests.kafka.kafkas_groups import KafkasGroups, Step, uuid_of
from tests.kafka.test_groups_beside_kafka import CLIENT_HOST, GROUPS, START_MS, Client, History, subscription
from tests.unit.core.groups.cluster import Cluster
from tests.unit.core.groups.coordinator_harness import CoordinatorHarness

HISTORIES = 80
STEPS = 250
REGEXES = ["a|b", ".*", "b.*", "[ab]", "nothing", "", "[", "a**", "(?P<n>a", "a{1001}", "\\", "(?=a)", "x|*"]


@pytest.fixture(scope="module")
def kafkas_groups(apache_kafka_libs: Path) -> Iterator[KafkasGroups]:
    with KafkasGroups(apache_kafka_libs, GroupSettings(), START_MS) as kafka:
        yield kafka


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_random_consumer_group_histories_equal_kafkas(kafkas_groups: KafkasGroups, seed: int) -> None:
    ConsumerHistory(kafkas_groups, random.Random(seed)).run(STEPS)


@dataclass
class Consumer:
    number: int
    group_id: str
    instance_id: str | None
    names: tuple[str, ...] | None
    regex: str | None
    assignor: str | None
    lives: int = 0
    member_id: str = ""
    epoch: int = -1
    """-1 if it is not a member."""
    held: dict[UUID, tuple[int, ...]] = field(default_factory=dict)
    got_assignment: bool = False

    def owned(self) -> tuple[TopicIdPartitions, ...]:
        return tuple(TopicIdPartitions(topic_id, each) for topic_id, each in self.held.items())


class ConsumerHistory(History):
    def __init__(self, kafka: KafkasGroups, rng: random.Random) -> None:
        super().__init__(kafka, rng)
        policy = rng.choice([*[MigrationPolicy.BIDIRECTIONAL] * 4, *MigrationPolicy])
        settings = GroupSettings(
            classic_group_max_size=rng.choice([3, 1000]),
            offset_metadata_max_bytes=10,
            offsets_retention_ms=60_000,
            consumer_group_max_size=rng.choice([4, 1000, 1000]),
            consumer_session_timeout=Bounds(10_000, 5_000, 60_000),
            consumer_heartbeat_interval=Bounds(3_000, 1_000, 4_999),
            consumer_assignment_interval=Bounds(rng.choice([0, 0, 1_000]), 0, 15_000),
            consumer_migration_policy=policy,
            consumer_regex_refresh_interval_ms=rng.choice([15_000, 600_000]),
        )
        kafka.start(settings, START_MS)
        self.cluster = Cluster()
        self.configs: dict[str, dict[str, str]] = {}
        self.ours = CoordinatorHarness(
            settings,
            new_uuid=self.take_uuid,
            now_ms=START_MS,
            loads_all=True,
            topics=self.cluster,
            configs=GroupConfigs(settings, lambda group_id: self.configs.get(group_id, {})),
        )
        # All members use one assignor, because with a tie Kafka's choice depends on the history of its hash tables.
        self.assignor = rng.choice(["uniform", "range"])
        self.consumers = [self.new_consumer(number) for number in range(5)]
        self.heartbeats: dict[int, Consumer] = {}
        self.create_topic("a", 4)
        self.create_topic("b", 2)

    def take_uuid(self) -> UUID:
        """Return the expected UUID once; an ID that looks like an option is rejected and another is requested."""
        taken, self.next_uuid = self.next_uuid, UUID(int=0)
        return taken

    def new_consumer(self, number: int) -> Consumer:
        rng = self.rng
        names = rng.choice([("a",), ("a", "b"), ("a", "b"), (), ("absent", "a")])
        regex = rng.choice(REGEXES[:5]) if rng.random() < 0.3 else None
        return Consumer(
            number,
            rng.choice(GROUPS),
            f"static{number}" if rng.random() < 0.35 else None,
            None if regex is not None and rng.random() < 0.7 else names,
            regex,
            rng.choice([None, self.assignor]),
        )

    def run(self, steps: int) -> None:
        actions = {
            self.consumer_behaves: 120,
            self.consumer_does_anything: 10,
            self.consumer_leaves: 6,
            self.consumer_restarts: 4,
            self.consumer_subscribes: 8,
            self.consumer_commits: 10,
            self.consumer_fetches: 5,
            self.topics_change: 5,
            self.configs_change: 1,
            self.behave: 60,
            self.join: 3,
            self.sync: 3,
            self.heartbeat: 5,
            self.leave: 5,
            self.commit_offsets: 5,
            self.commit_in_transaction: 4,
            self.end_transaction: 2,
            self.fetch: 3,
            self.delete_offsets: 2,
            self.delete_groups: 2,
            self.look: 4,
            self.expire: 1,
            self.restart: 4,
            self.failover: 2,
            self.pass_time: 14,
            self.commit: 30,
        }
        for _ in range(steps):
            (action,) = self.rng.choices(list(actions), list(actions.values()))
            action()

    # ---- what members of the consumer protocol do

    def consumer_behaves(self) -> None:
        consumer = self.rng.choice(self.consumers)
        if consumer.epoch < 0:
            self.consumer_joins(consumer)
        elif self.rng.random() < 0.05:
            self.beat(
                consumer,
                rebalance_timeout_ms=20_000,
                topic_names=consumer.names,
                topic_regex=consumer.regex,
                owned=consumer.owned(),
            )
        else:
            owned = consumer.owned() if consumer.got_assignment or self.rng.random() < 0.1 else None
            consumer.got_assignment = False
            self.beat(consumer, owned=owned)

    def consumer_joins(self, consumer: Consumer) -> None:
        version = 1
        if not consumer.member_id or self.rng.random() < 0.7:
            consumer.lives += 1
            consumer.member_id = f"c{consumer.number}-{consumer.lives}"
            if self.rng.random() < 0.2:
                version, consumer.member_id = 0, ""
        consumer.held = {}
        self.beat(
            consumer,
            version=version,
            member_epoch=0,
            rebalance_timeout_ms=self.rng.choice([5_000, 20_000]) + consumer.number,
            topic_names=consumer.names,
            topic_regex=consumer.regex,
            server_assignor=consumer.assignor,
            rack_id=self.rng.choice([None, None, "r1"]),
            owned=(),
        )

    def consumer_does_anything(self) -> None:
        consumer = self.rng.choice(self.consumers)
        others = [one.member_id for one in [*self.consumers, *self.clients] if one.member_id]
        self.beat(
            consumer,
            member_id=self.rng.choice([consumer.member_id, *others]) or "nobody",
            member_epoch=max(consumer.epoch + self.rng.choice([-1, -1, 0, 1, 5]), 1),
            instance_id=self.rng.choice([consumer.instance_id, "static0", None]),
            owned=self.rng.choice([None, (), consumer.owned()]),
        )

    def consumer_leaves(self) -> None:
        consumer = self.rng.choice(self.consumers)
        if not consumer.member_id:
            return
        epoch = -2 if consumer.instance_id is not None and self.rng.random() < 0.6 else -1
        self.beat(consumer, member_epoch=epoch)
        consumer.epoch = -1

    def consumer_restarts(self) -> None:
        consumer = self.rng.choice(self.consumers)
        consumer.epoch, consumer.held = -1, {}

    def consumer_subscribes(self) -> None:
        consumer = self.rng.choice(self.consumers)
        if consumer.epoch < 1:
            return
        if self.rng.random() < 0.5:
            consumer.names = self.rng.choice([("a",), ("b",), ("a", "b"), ()])
            self.beat(consumer, topic_names=consumer.names)
        else:
            consumer.regex = self.rng.choice(REGEXES)
            names = self.rng.choice([None, ()])
            self.beat(consumer, topic_regex=consumer.regex, topic_names=names)
            consumer.names = consumer.names if names is None else names

    def beat(self, consumer: Consumer, **fields: object) -> None:
        self.token += 1
        command = ConsumerGroupHeartbeat(
            1,
            consumer.group_id,
            consumer.member_id or "nobody",
            max(consumer.epoch, 0),
            f"consumer{consumer.number}",
            CLIENT_HOST,
            instance_id=consumer.instance_id,
        )
        if fields.get("version") == 0:
            command = command._replace(member_id="")
        command = command._replace(**fields)  # type: ignore[arg-type]
        if command.member_epoch == 0 and command.rebalance_timeout_ms < 0:
            return  # The service around Kafka's coordinator rejects it.
        self.heartbeats[self.token] = consumer
        with self.looking_again():
            expected = self.kafka.send(command, self.token)
            self.next_uuid = self.new_consumer_id(expected)
            self.ours.send(command, self.token)
        self.compare(f"{self.token}: {command}", expected)

    @contextmanager
    def looking_again(self) -> Iterator[None]:
        """Kafka uses the previous subscriptions unless something makes it recompute them, so make both do so."""
        self.kafka.looks_again = True
        groups = [self.ours.coordinator.group(group_id) for group_id in GROUPS]
        former = [(group, group.metadata_refresh) for group in groups if isinstance(group, ConsumerGroup)]
        for group, _ in former:
            group.metadata_refresh = (0, 0)
        yield
        self.kafka.looks_again = False
        for group, refresh in former:
            if group.metadata_refresh == (0, 0):
                group.metadata_refresh = refresh

    def new_consumer_id(self, step: Step) -> UUID:
        known = {one.member_id for one in self.consumers} | self.seen_ids
        ids = {getattr(record.key, "member_id", "") for record in step.records}
        for response in step.responses.values():
            ids |= set(re.findall(r"Static member (\S+) with", getattr(response, "error_message", None) or ""))
        new = [one for one in ids - known if len(one) == 22]
        self.seen_ids.update(new)
        return uuid_of(new[0]) if new else UUID(int=0)

    def consumer_commits(self) -> None:
        consumer = self.rng.choice(self.consumers)
        epoch = self.odd(consumer.epoch, [-1, 0, consumer.epoch - 1, consumer.epoch - 1, consumer.epoch + 1])
        if self.rng.random() < 0.3:
            epoch = max(consumer.epoch - 1, -1)
        version = self.odd(9, [8])
        self.send(CommitOffsets(version, consumer.group_id, epoch, consumer.member_id, None, self.some_offsets()))

    def consumer_fetches(self) -> None:
        self.commit()
        consumer = self.rng.choice(self.consumers)
        member_id = self.odd(consumer.member_id, [None, "nobody"])
        # Kafka fails at an epoch without a member.
        epoch = -1 if member_id is None else self.odd(consumer.epoch, [-1, 0, consumer.epoch - 1])
        stable = self.rng.random() < 0.5
        command = FetchOffsets(
            consumer.group_id, None, require_stable=stable, member_id=member_id, member_epoch=max(epoch, -1)
        )
        self.send(command)

    # ---- what members of the classic protocol do differently

    def sync(self, client: Client | None = None) -> None:
        client = client or self.rng.choice(self.clients)
        client.is_to_sync = False
        shares: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in client.leads}
        partitions = [
            (name, index) for name in self.cluster.names() for index in range(self.cluster.topic(name).partition_count)
        ]
        for place, (name, index) in enumerate(partitions):
            if client.leads:
                shares[client.leads[place % len(client.leads)]].setdefault(name, []).append(index)
        assignments = [
            (member_id, write_assignment(share.items(), self.rng.choice([0, 1, 3])))
            for member_id, share in shares.items()
        ]
        if self.rng.random() < 0.1:
            assignments = [(member_id, data[:-4] + b"\0\0\0\1!") for member_id, data in assignments]
        self.send(
            SyncGroup(
                client.group_id,
                self.odd(client.generation_id, [0, client.generation_id - 1, client.generation_id + 1]),
                self.odd(client.member_id, ["", "nobody"]),
                self.odd(client.instance_id, ["static0", None]),
                self.odd("consumer", [None, "connect"]),
                self.odd(client.protocol, [None, "nothing"]),
                assignments,
            ),
            client,
        )

    def send(self, command: Command, client: Client | None = None) -> None:
        if isinstance(command, JoinGroup) and client is not None and client.holds and self.rng.random() < 0.6:
            # Partitions that it has not revoked yet must not be assigned to another member.
            protocols = tuple(
                MemberProtocol(one.name, subscription_with(one.metadata, client.holds)) for one in command.protocols
            )
            command = command._replace(protocols=protocols)
        if isinstance(command, CommitOffsetsInTransaction):
            command = command._replace(topics=[one._replace(topic_id=None) for one in command.topics])
        group = self.ours.coordinator.group(command.group_id) if isinstance(command, JoinGroup) else None
        if isinstance(command, JoinGroup) and isinstance(group, ConsumerGroup) and group.is_empty:
            # Kafka removes the empty group even if it rejects a member that joins with an ID.
            command = command._replace(member_id="")
        with self.looking_again():
            super().send(command, client)
        if isinstance(command, JoinGroup | SyncGroup):
            self.commit()

    def new_id(self, command: JoinGroup, step: Step) -> UUID:
        of_consumers = {
            response.member_id
            for response in step.responses.values()
            if hasattr(response, "member_id") and response.member_id and len(response.member_id) == 22
        } - self.seen_ids
        if of_consumers:
            self.seen_ids.update(of_consumers)
            return uuid_of(of_consumers.pop())
        found = self.new_consumer_id(step)
        return found if found.int else super().new_id(command, step)

    # ---- environment

    def topics_change(self) -> None:
        name = self.rng.choice(["a", "b", "bb", "c"])
        topic = self.cluster.by_name(name)
        if topic is None:
            self.create_topic(name, self.rng.choice([1, 2, 5]))
        elif self.rng.random() < 0.6:
            self.create_topic(name, min(topic.partition_count + self.rng.choice([0, 1, 2]), 8))
        else:
            self.cluster.delete(name)
            self.notify_of(name, any_created=False)

    def create_topic(self, name: str, partition_count: int) -> None:
        former = self.cluster.by_name(name)
        former_racks = None if former is None else self.cluster.racks(former)
        racks = [self.rng.sample(["r1", "r2", "r3"], self.rng.randrange(4)) for _ in range(partition_count)]
        if racks != former_racks:
            self.cluster.create(name, partition_count, racks)
            self.notify_of(name, any_created=former is None)

    def notify_of(self, name: str, *, any_created: bool) -> None:
        self.kafka.change_topics(self.cluster)
        self.ours.coordinator.on_topics_changed([name], any_created=any_created)
        self.story.append(f"topics: {[self.cluster.topic(one) for one in self.cluster.names()]}")

    def configs_change(self) -> None:
        group_id = self.rng.choice(GROUPS)
        configs = self.rng.choice(
            [
                {"consumer.heartbeat.interval.ms": "2000"},
                {"consumer.session.timeout.ms": "20000"},
                {"consumer.assignment.interval.ms": "2000"},
                {},
            ]
        )
        self.kafka.change_configs(group_id, configs)
        self.configs[group_id] = configs
        self.story.append(f"configs of {group_id}: {configs}")

    def some_offsets(self) -> list[TopicOffsets]:
        """Offsets with the current topic IDs, as the request handler resolves them."""
        return [
            one._replace(topic_id=None if (topic := self.cluster.by_name(one.topic)) is None else topic.id)
            for one in super().some_offsets()
        ]

    def look(self) -> None:
        super().look()
        names = [*GROUPS, "simple", "absent"]
        expected = [_sorted(one) for one in self.kafka.describe_consumer_groups(names)]
        ours = [_sorted(one) for one in self.ours.coordinator.describe_consumer_groups(names)]
        assert ours == expected, self.recent_story()

    def learn_of(self, token: int, response: Response) -> None:
        consumer = self.heartbeats.pop(token, None)
        if consumer is None or not isinstance(response, ConsumerGroupHeartbeatResponse):
            super().learn_of(token, response)
            return
        if response.error in (ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch, ErrorCode.group_id_not_found):
            consumer.epoch, consumer.held = -1, {}
        elif response.error is ErrorCode.none and response.member_epoch > 0:
            assert response.member_id is not None
            consumer.member_id, consumer.epoch = response.member_id, response.member_epoch
            if response.assignment is not None:
                consumer.got_assignment = True
                consumer.held = {one.topic_id: one.partitions for one in response.assignment}

    def learn(self, client: Client, response: Response) -> None:
        super().learn(client, response)
        if isinstance(response, SyncResponse) and response.error is ErrorCode.none:
            try:
                client.holds = dict(read_assignment(response.assignment).partitions)
            except UnreadableSubscription:
                client.holds = {}


def subscription_with(metadata: bytes, owned: dict[str, tuple[int, ...]]) -> bytes:
    if len(metadata) < 4:
        return metadata
    topics = write_assignment(owned.items(), 1)[2:-4]
    return metadata[:-4] + topics


def _sorted(group: DescribedConsumerGroup) -> DescribedConsumerGroup:
    members = (
        one._replace(assignment=tuple(sorted(one.assignment)), target_assignment=tuple(sorted(one.target_assignment)))
        for one in group.members
    )
    return group._replace(members=tuple(sorted(members)))


def test_subscription_metadata_can_contain_owned_partitions() -> None:
    assert subscription_with(subscription("a"), {"b": (1, 2)}).startswith(subscription("a")[:-4])

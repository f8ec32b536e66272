"""A cluster of topics and nothing else, and the members of consumer groups that read them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.core.groups.commands import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResponse, TopicIdPartitions
from odradek.core.groups.topics import Topic
from tests.unit.core.groups.coordinator_harness import CoordinatorHarness


class Cluster:
    def __init__(self, **partition_counts: int) -> None:
        self.version = 0
        self._next_id = 1
        self._topics: dict[str, Topic] = {}
        self._racks: dict[str, list[list[str]]] = {}
        for name, count in partition_counts.items():
            self.create(name, count)

    def create(self, name: str, partition_count: int, racks: Sequence[Sequence[str]] = ()) -> Topic:
        """Or make it grow."""
        known = self._topics.get(name)
        topic = Topic(name, UUID(int=self._next_id << 64) if known is None else known.id, partition_count)
        self._next_id += known is None
        self._topics[name] = topic
        self._racks[name] = [list(racks[index]) if index < len(racks) else [] for index in range(partition_count)]
        self.version += 1
        return topic

    def delete(self, name: str) -> None:
        del self._topics[name]
        self.version += 1

    def topic(self, name: str) -> Topic:
        return self._topics[name]

    def id_of(self, name: str) -> UUID:
        return self._topics[name].id

    def by_name(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def by_id(self, topic_id: UUID) -> Topic | None:
        return next((topic for topic in self._topics.values() if topic.id == topic_id), None)

    def names(self) -> Iterable[str]:
        return self._topics

    def racks(self, topic: Topic) -> Sequence[Sequence[str]]:
        return self._racks[topic.name]


@dataclass
class Consumer:
    """A correct client: it applies its assignment, and confirms it with its next heartbeat."""

    harness: CoordinatorHarness
    name: str
    topics: tuple[str, ...] | None = ("a",)
    regex: str | None = None
    instance_id: str | None = None
    group_id: str = "g"
    rebalance_timeout_ms: int = 60_000
    epoch: int = 0
    held: dict[UUID, tuple[int, ...]] = field(default_factory=dict)
    response: ConsumerGroupHeartbeatResponse | None = None

    def join(self) -> ConsumerGroupHeartbeatResponse:
        self.epoch, self.held = 0, {}
        return self._heartbeat(
            self._command(
                rebalance_timeout_ms=self.rebalance_timeout_ms,
                topic_names=self.topics,
                topic_regex=self.regex,
                owned=(),
            )
        )

    def beat(self) -> ConsumerGroupHeartbeatResponse:
        """With its owned partitions, if it has received an assignment."""
        owned = tuple(TopicIdPartitions(topic_id, each) for topic_id, each in self.held.items())
        has_assignment = self.response is not None and self.response.assignment is not None
        return self._heartbeat(self._command(owned=owned if has_assignment else None))

    def subscribe(self, *topics: str) -> ConsumerGroupHeartbeatResponse:
        self.topics = topics
        return self._heartbeat(self._command(topic_names=topics))

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        return self._heartbeat(self._command(member_epoch=epoch))

    def _command(self, **fields: object) -> ConsumerGroupHeartbeat:
        command = ConsumerGroupHeartbeat(
            1, self.group_id, self.name, self.epoch, "client", "/127.0.0.1", instance_id=self.instance_id
        )
        return command._replace(**fields)

    def _heartbeat(self, command: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeatResponse:
        response = self.harness.execute(command)
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        self.response = response
        if response.error is ErrorCode.none:
            self.epoch = response.member_epoch
            if response.assignment is not None:
                self.held = {one.topic_id: one.partitions for one in response.assignment}
        return response

    @property
    def partitions(self) -> set[tuple[UUID, int]]:
        return {(topic_id, partition) for topic_id, each in self.held.items() for partition in each}

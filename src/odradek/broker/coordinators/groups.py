"""The group coordinators of this broker: `__consumer_offsets`, and what handlers may ask of it."""

from collections.abc import Callable, Collection, Sequence
from typing import Final
from uuid import UUID

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.java_hash import partition_of
from odradek.base.ports import Clock, Executor
from odradek.broker.coordinators.machine import HostSettings
from odradek.broker.coordinators.registry import Coordinators
from odradek.config.node_config import NodeConfig
from odradek.core.groups.commands import (
    Answer,
    Command,
    CommitOffsets,
    DeleteGroups,
    DescribedConsumerGroup,
    DescribedGroup,
    GroupCommand,
    ListedGroup,
)
from odradek.core.groups.coordinator import GroupCoordinator
from odradek.core.groups.group_configs import GroupConfigs
from odradek.core.groups.outcome import Outcome
from odradek.core.groups.records import GroupRecord, UnknownKind, decode, encode_key, encode_value
from odradek.core.groups.refusals import refuse
from odradek.core.groups.settings import GroupSettings
from odradek.core.groups.topics import ImageTopics, Topics
from odradek.core.metadata.apply import ImageDelta
from odradek.core.metadata.image import RESOURCE_GROUP, ClusterImage, TopicImage
from odradek.core.metadata.topic_names import CONSUMER_OFFSETS
from odradek.records.control import EndTransactionMarker


class GroupMachine(GroupCoordinator):
    """The coordinator of one partition, which looks for what has expired by itself."""

    def __init__(
        self, settings: GroupSettings, new_uuid: Callable[[], UUID], topics: Topics, configs: GroupConfigs
    ) -> None:
        super().__init__(settings, new_uuid, topics, configs)
        self._expiry_interval_ms: Final = settings.offsets_retention_check_interval_ms
        self._next_expiry_ms: int | None = None

    def loaded(self, now_ms: int) -> list[Outcome]:
        self._next_expiry_ms = now_ms + self._expiry_interval_ms
        return super().loaded(now_ms)

    def next_deadline_ms(self) -> int | None:
        of_groups = super().next_deadline_ms()
        expiry_ms = self._next_expiry_ms
        return of_groups if expiry_ms is None or (of_groups is not None and of_groups < expiry_ms) else expiry_ms

    def pass_deadline(self, now_ms: int) -> Outcome | None:
        if self._next_expiry_ms is not None and self._next_expiry_ms <= now_ms:
            self._next_expiry_ms = now_ms + self._expiry_interval_ms
            return self.expire_offsets(now_ms)
        return super().pass_deadline(now_ms)


class GroupKind:
    topic: Final = CONSUMER_OFFSETS

    def __init__(
        self, current: Callable[[], NodeConfig], new_uuid: Callable[[], UUID], image: Callable[[], ClusterImage]
    ) -> None:
        config = current()
        self._settings: Final = GroupSettings.of(config)
        self._new_uuid: Final = new_uuid
        self._topics: Final = ImageTopics(image)
        self._configs: Final = GroupConfigs(
            self._settings,
            lambda group_id: image().configs.get((RESOURCE_GROUP, group_id), {}),
            lambda: current().effective_number("group.consumer.assignment.interval.ms"),
        )
        self.settings: Final = HostSettings(
            config.effective_number("offsets.commit.timeout.ms"),
            config.effective_number("offsets.topic.compression.codec"),
        )

    def new_machine(self, partition: int, leader_epoch: int) -> GroupMachine:
        return GroupMachine(self._settings, self._new_uuid, self._topics, self._configs)

    def refuse(self, command: Command, error: ErrorCode) -> Answer:
        return refuse(command, error)

    def is_independent(self, command: Command) -> bool:
        """Whether an offset may be committed is a matter of the group, and committing it does not change that."""
        return command.__class__ is CommitOffsets

    def encode(self, record: GroupRecord) -> tuple[bytes, bytes | None]:
        return encode_key(record), encode_value(record)

    def decode(self, key: bytes | None, value: bytes | None) -> GroupRecord | None:
        try:
            return decode(key, value)
        except UnknownKind:
            return None


class GroupService:
    """As `GroupsPort` of the handlers has it."""

    def __init__(
        self,
        current: Callable[[], NodeConfig],
        *,
        new_uuid: Callable[[], UUID],
        image: Callable[[], ClusterImage],
        clock: Clock,
        executor: Executor,
        on_disk_failure: Callable[[str, OSError], None],
    ) -> None:
        self._image: Final = image
        self._default_partitions: Final = current().effective_number("offsets.topic.num.partitions")
        self.coordinators: Final = Coordinators[Command, Answer, GroupRecord](
            GroupKind(current, new_uuid, image), clock=clock, executor=executor, on_disk_failure=on_disk_failure
        )

    def partition_of(self, group_id: str) -> int:
        topic = self._image().topics_by_name.get(CONSUMER_OFFSETS)
        return partition_of(group_id, self._default_partitions if topic is None else len(topic.partitions))

    def submit(self, command: GroupCommand) -> DeferredResponse:
        host = self.coordinators.host(self.partition_of(command.group_id))
        if host is None:
            return self.coordinators.refuse(command, ErrorCode.not_coordinator)
        return host.submit(command)

    def submit_to(self, partition: int, command: DeleteGroups) -> DeferredResponse:
        host = self.coordinators.host(partition)
        if host is None:
            return self.coordinators.refuse(command, ErrorCode.not_coordinator)
        return host.submit(command)

    def describe(self, group_ids: Sequence[str], version: int) -> list[DescribedGroup]:
        described: list[DescribedGroup] = []
        for group_id in group_ids:
            host = self.coordinators.host(self.partition_of(group_id))
            if host is None or not host.is_active:
                code = ErrorCode.not_coordinator if host is None else host.refusal
                described.append(DescribedGroup(group_id, code, None, ""))
            else:
                described += _looked_at(host.machine).describe_groups((group_id,), version)
        return described

    def describe_consumers(self, group_ids: Sequence[str]) -> list[DescribedConsumerGroup]:
        described: list[DescribedConsumerGroup] = []
        for group_id in group_ids:
            host = self.coordinators.host(self.partition_of(group_id))
            if not group_id:
                described.append(DescribedConsumerGroup(group_id, ErrorCode.invalid_group_id))
            elif host is None or not host.is_active:
                code = ErrorCode.not_coordinator if host is None else host.refusal
                described.append(DescribedConsumerGroup(group_id, code))
            else:
                described += _looked_at(host.machine).describe_consumer_groups((group_id,))
        return described

    def list(self, states: Collection[str], kinds: Collection[str]) -> tuple[ErrorCode, list[ListedGroup]]:
        listed: list[ListedGroup] = []
        for host in self.coordinators.hosts():
            if host.is_active:
                listed += _looked_at(host.machine).list_groups(states, kinds)
            elif host.refusal is not ErrorCode.not_coordinator:
                return host.refusal, []
        return ErrorCode.none, listed

    async def end_transaction(
        self,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        marker: EndTransactionMarker,
        transaction_version: int,
    ) -> None:
        host = self.coordinators.host(partition)
        if host is None:
            raise KafkaError(ErrorCode.not_coordinator)
        await host.end_transaction(producer_id, producer_epoch, marker, transaction_version)

    def image_changed(self, delta: ImageDelta) -> None:
        created = [topic.name for topic in delta.topics_created]
        grown = (topic.name for topic in delta.topics_changed if _has_other_replicas(topic, delta))
        names = {*created, *grown, *(topic.name for topic in delta.topics_deleted)}
        if names:
            self.coordinators.everywhere(
                lambda machine, _: _looked_at(machine).topics_changed(names, any_created=bool(created))
            )
        deleted = {topic.name: topic.id for topic in delta.topics_deleted}
        if deleted:
            self.coordinators.everywhere(lambda machine, _: _looked_at(machine).topics_deleted(deleted))


def _has_other_replicas(topic: TopicImage, delta: ImageDelta) -> bool:
    """Or more partitions. Who leads them is nothing to groups."""
    former = delta.previous.topics_by_id[topic.id].partitions
    return any(
        index not in former or former[index].replicas != topic.partitions[index].replicas
        for index in delta.partitions_changed.get(topic.id, ())
    )


def _looked_at(machine: object) -> GroupMachine:
    assert isinstance(machine, GroupMachine)
    return machine

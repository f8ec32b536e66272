"""The group coordinators of this broker: the runtime of `__consumer_offsets`, and the operations of API handlers."""

from collections.abc import Callable, Collection, Sequence
from typing import Final
from uuid import UUID

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.base.java_hash import partition_of
from odradek.base.ports import Clock, Workers
from odradek.broker.coordinators.runtime import CoordinatorRuntime
from odradek.broker.coordinators.shard import RuntimeSettings
from odradek.broker.ports import CoordinatorPort
from odradek.config.node_config import NodeConfig
from odradek.core.groups.commands import (
    Command,
    CommitOffsets,
    DescribedConsumerGroup,
    DescribedGroup,
    ListedGroup,
    Response,
)
from odradek.core.groups.coordinator import GroupCoordinator
from odradek.core.groups.coordinator_result import CoordinatorResult
from odradek.core.groups.error_responses import error_response
from odradek.core.groups.group_configs import GroupConfigs
from odradek.core.groups.records import GroupRecord, UnknownKind, decode, encode_key, encode_value
from odradek.core.groups.settings import GroupSettings
from odradek.core.groups.topics import ImageTopics, Topics
from odradek.core.metadata.apply import ImageDelta
from odradek.core.metadata.image import RESOURCE_GROUP, ClusterImage, TopicImage
from odradek.core.metadata.topic_names import CONSUMER_OFFSETS
from odradek.records.control import EndTransactionMarker


class GroupShard(GroupCoordinator):
    """The coordinator of one partition, which also schedules the expiry of offsets."""

    def __init__(
        self, settings: GroupSettings, new_uuid: Callable[[], UUID], topics: Topics, configs: GroupConfigs
    ) -> None:
        super().__init__(settings, new_uuid, topics, configs)
        self._expiry_interval_ms: Final = settings.offsets_retention_check_interval_ms
        self._next_expiry_ms: int | None = None

    def on_loaded(self, now_ms: int) -> list[CoordinatorResult]:
        self._next_expiry_ms = now_ms + self._expiry_interval_ms
        return super().on_loaded(now_ms)

    def next_deadline_ms(self) -> int | None:
        of_groups = super().next_deadline_ms()
        expiry_ms = self._next_expiry_ms
        return of_groups if expiry_ms is None or (of_groups is not None and of_groups < expiry_ms) else expiry_ms

    def expire_deadline(self, now_ms: int) -> CoordinatorResult | None:
        if self._next_expiry_ms is not None and self._next_expiry_ms <= now_ms:
            self._next_expiry_ms = now_ms + self._expiry_interval_ms
            return self.expire_offsets(now_ms)
        return super().expire_deadline(now_ms)


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
        self.settings: Final = RuntimeSettings(
            config.effective_number("offsets.commit.timeout.ms"),
            config.effective_number("offsets.topic.compression.codec"),
        )

    def new_shard(self, partition: int, leader_epoch: int) -> GroupShard:
        return GroupShard(self._settings, self._new_uuid, self._topics, self._configs)

    def error_response(self, command: Command, error: ErrorCode) -> Response:
        return error_response(command, error)

    def is_independent(self, command: Command) -> bool:
        """A commit is checked against the group's members, which no commit changes."""
        return command.__class__ is CommitOffsets

    def encode(self, record: GroupRecord) -> tuple[bytes, bytes | None]:
        return encode_key(record), encode_value(record)

    def decode(self, key: bytes | None, value: bytes | None) -> GroupRecord | None:
        try:
            return decode(key, value)
        except UnknownKind:
            return None


class GroupService:
    """Implements `GroupsPort`."""

    def __init__(
        self,
        current: Callable[[], NodeConfig],
        *,
        new_uuid: Callable[[], UUID],
        image: Callable[[], ClusterImage],
        clock: Clock,
        workers: Workers,
        on_disk_failure: Callable[[str, OSError], None],
    ) -> None:
        self._image: Final = image
        self._default_partitions: Final = current().effective_number("offsets.topic.num.partitions")
        self.runtime: Final = CoordinatorRuntime[Command, Response, GroupRecord](
            GroupKind(current, new_uuid, image), clock=clock, workers=workers, on_disk_failure=on_disk_failure
        )

    def partition_of(self, group_id: str) -> int:
        topic = self._image().topics_by_name.get(CONSUMER_OFFSETS)
        return partition_of(group_id, self._default_partitions if topic is None else len(topic.partitions))

    def coordinator_of(self, group_id: str) -> CoordinatorPort[Command]:
        return self.runtime.coordinator(self.partition_of(group_id))

    def coordinator_at(self, partition: int) -> CoordinatorPort[Command]:
        return self.runtime.coordinator(partition)

    def describe(self, group_ids: Sequence[str], version: int) -> list[DescribedGroup]:
        described: list[DescribedGroup] = []
        for group_id in group_ids:
            context = self.runtime.context(self.partition_of(group_id))
            if context is None or not context.is_active:
                code = ErrorCode.not_coordinator if context is None else context.unavailable
                described.append(DescribedGroup(group_id, code, None, ""))
            else:
                described += _as_shard(context.shard).describe_groups((group_id,), version)
        return described

    def describe_consumers(self, group_ids: Sequence[str]) -> list[DescribedConsumerGroup]:
        described: list[DescribedConsumerGroup] = []
        for group_id in group_ids:
            context = self.runtime.context(self.partition_of(group_id))
            if not group_id:
                described.append(DescribedConsumerGroup(group_id, ErrorCode.invalid_group_id))
            elif context is None or not context.is_active:
                code = ErrorCode.not_coordinator if context is None else context.unavailable
                described.append(DescribedConsumerGroup(group_id, code))
            else:
                described += _as_shard(context.shard).describe_consumer_groups((group_id,))
        return described

    def list(self, states: Collection[str], kinds: Collection[str]) -> tuple[ErrorCode, list[ListedGroup]]:
        listed: list[ListedGroup] = []
        for context in self.runtime.contexts():
            if context.is_active:
                listed += _as_shard(context.shard).list_groups(states, kinds)
            elif context.unavailable is not ErrorCode.not_coordinator:
                return context.unavailable, []
        return ErrorCode.none, listed

    def end_transaction(
        self,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        marker: EndTransactionMarker,
        transaction_version: int,
    ) -> DeferredResponse:
        context = self.runtime.context(partition)
        if context is None:
            return DeferredResponse.from_result(ErrorCode.not_coordinator)
        return context.end_transaction(producer_id, producer_epoch, marker, transaction_version)

    def on_image_change(self, delta: ImageDelta) -> None:
        created = [topic.name for topic in delta.topics_created]
        grown = (topic.name for topic in delta.topics_changed if _has_other_replicas(topic, delta))
        names = {*created, *grown, *(topic.name for topic in delta.topics_deleted)}
        if names:
            self.runtime.schedule_everywhere(
                lambda shard, _: _as_shard(shard).on_topics_changed(names, any_created=bool(created))
            )
        deleted = {topic.name: topic.id for topic in delta.topics_deleted}
        if deleted:
            self.runtime.schedule_everywhere(lambda shard, _: _as_shard(shard).on_topics_deleted(deleted))


def _has_other_replicas(topic: TopicImage, delta: ImageDelta) -> bool:
    """Or more partitions. Leaders do not matter to groups."""
    former = delta.previous.topics_by_id[topic.id].partitions
    return any(
        index not in former or former[index].replicas != topic.partitions[index].replicas
        for index in delta.partitions_changed.get(topic.id, ())
    )


def _as_shard(shard: object) -> GroupShard:
    assert isinstance(shard, GroupShard)
    return shard

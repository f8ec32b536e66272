"""The group coordinator of one partition of `__consumer_offsets`: a state machine without I/O.

Its inputs are commands with a token each, records through `replay`, the high watermark, and the time when
`next_deadline_ms` has come. Its output is a `CoordinatorResult`, whose records the runtime appends and replays before
the next input. It reads no clock and never waits.

A new leader of the partition creates a coordinator, calls `advance_high_watermark`, replays the log and calls
`on_loaded`. When leadership ends, `on_unloaded` returns the responses that are pending.

Consumer groups also depend on the cluster. `topics` and `configs`, which all coordinators of a broker share, show its
current state. The runtime calls `on_topics_changed` when topics are created or deleted or get other partitions or
replicas, and `on_topics_deleted` to delete the offsets of deleted topics.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.core.groups.classic_protocol import ClassicProtocol
from odradek.core.groups.classic_rebalance import ClassicRebalance
from odradek.core.groups.classic_records import group_from, tombstone_of
from odradek.core.groups.commands import (
    Command,
    CommitOffsets,
    CommitOffsetsInTransaction,
    ConsumerGroupHeartbeat,
    DeleteGroups,
    DeleteGroupsResponse,
    DeleteOffsets,
    DescribedConsumerGroup,
    DescribedGroup,
    FetchOffsets,
    Heartbeat,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    ListedGroup,
    SyncGroup,
)
from odradek.core.groups.consumer_classic import ClassicMembers
from odradek.core.groups.consumer_group import ConsumerGroup
from odradek.core.groups.consumer_groups import ConsumerGroups
from odradek.core.groups.consumer_records import group_tombstones
from odradek.core.groups.consumer_replay import ConsumerKey, replay_consumer
from odradek.core.groups.coordinator_result import CoordinatorResult, GroupConverted, Token, WriteEvent
from odradek.core.groups.descriptions import describe_consumer_groups, describe_groups, list_groups
from odradek.core.groups.group_configs import GroupConfigs
from odradek.core.groups.groups import JOIN, SESSION, SYNC, Group, Groups
from odradek.core.groups.offset_store import OffsetStore, to_stored_offset
from odradek.core.groups.offsets import Offsets
from odradek.core.groups.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    GroupRecord,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.core.groups.settings import GroupSettings
from odradek.core.groups.topics import NoTopics, Topics
from odradek.records.batch import NO_PRODUCER_ID


class GroupCoordinator:
    def __init__(
        self,
        settings: GroupSettings,
        new_uuid: Callable[[], UUID],
        topics: Topics | None = None,
        configs: GroupConfigs | None = None,
    ) -> None:
        self._settings = settings
        self._topics = topics or NoTopics()
        self._groups = Groups()
        self._store = OffsetStore()
        rebalance = ClassicRebalance(self._groups, settings)
        self._classic = ClassicProtocol(self._groups, settings, rebalance, new_uuid)
        self._consumers = ConsumerGroups(
            self._groups, settings, configs or GroupConfigs(settings), self._topics, rebalance, new_uuid
        )
        self._offsets = Offsets(self._groups, self._store, settings, self._topics, self._classic.renew_session)

    # ---- commands

    def handle(self, command: Command, token: Token, now_ms: int) -> CoordinatorResult:
        match command:
            case ConsumerGroupHeartbeat():
                return self._consumers.protocol.heartbeat(command, token, now_ms)
            case Heartbeat():
                return self._protocol_of(command.group_id).heartbeat(command, token, now_ms)
            case CommitOffsets():
                return self._offsets.commit(command, token, now_ms)
            case FetchOffsets():
                return self._offsets.fetch(command, token)
            case JoinGroup():
                return self._join(command, token, now_ms)
            case SyncGroup():
                return self._protocol_of(command.group_id).sync(command, token, now_ms)
            case LeaveGroup():
                return self._protocol_of(command.group_id).leave(command, token, now_ms)
            case CommitOffsetsInTransaction():
                return self._offsets.commit_in_transaction(command, token, now_ms)
            case DeleteOffsets():
                return self._offsets.delete(command, token)
            case DeleteGroups():
                return self._delete_groups(command, token)

    def _protocol_of(self, group_id: str) -> ClassicProtocol | ClassicMembers:
        """For requests of the classic protocol: a consumer group may have classic members too."""
        is_consumer = isinstance(self._groups.get(group_id), ConsumerGroup)
        return self._consumers.classic_members if is_consumer else self._classic

    def _join(self, command: JoinGroup, token: Token, now_ms: int) -> CoordinatorResult:
        shortest, longest = self._settings.min_session_timeout_ms, self._settings.max_session_timeout_ms
        if not command.group_id:
            return CoordinatorResult(responses=[(token, JoinResponse(ErrorCode.invalid_group_id, command.member_id))])
        if not shortest <= command.session_timeout_ms <= longest:
            return CoordinatorResult(
                responses=[(token, JoinResponse(ErrorCode.invalid_session_timeout, command.member_id))]
            )
        group = self._groups.get(command.group_id)
        if isinstance(group, ConsumerGroup) and group.is_empty:
            # A classic group replaces it.
            return self._classic.join(command, token, now_ms)
        return self._protocol_of(command.group_id).join(command, token, now_ms)

    def _delete_groups(self, command: DeleteGroups, token: Token) -> CoordinatorResult:
        result = CoordinatorResult()
        results = []
        for group_id in command.group_ids:
            group = self._groups.get(group_id)
            try:
                if group is None:
                    raise KafkaError(ErrorCode.group_id_not_found, f"Group {group_id} not found.")
                group.check_delete()
            except KafkaError as rejection:
                results.append((group_id, rejection.code))
                continue
            self._offsets.delete_all(group_id, result)
            result.records += _tombstones_of(group)
            results.append((group_id, ErrorCode.none))
        result.responses_after_commit.append((token, DeleteGroupsResponse(tuple(results))))
        return result

    def describe_groups(self, group_ids: Sequence[str], version: int) -> tuple[DescribedGroup, ...]:
        return describe_groups(self._groups, group_ids, version)

    def describe_consumer_groups(self, group_ids: Sequence[str]) -> tuple[DescribedConsumerGroup, ...]:
        """Includes appended records that are not committed yet."""
        return describe_consumer_groups(self._groups, group_ids, self._topics, self._settings.consumer_assignors[0])

    def list_groups(self, states: Collection[str] = (), kinds: Collection[str] = ()) -> tuple[ListedGroup, ...]:
        return list_groups(self._groups, states, kinds)

    def group(self, group_id: str) -> Group | None:
        """For reads only."""
        return self._groups.get(group_id)

    # ---- time

    def next_deadline_ms(self) -> int | None:
        return self._groups.deadlines.next_at()

    def expire_deadline(self, now_ms: int) -> CoordinatorResult | None:
        """Handles one expired deadline. The caller repeats this until it returns None."""
        key = self._groups.deadlines.pop_due(now_ms)
        if key is None:
            return None
        protocol = self._classic if key[0] in (SESSION, JOIN, SYNC) else self._consumers
        return protocol.deadline(key, now_ms)

    def expire_offsets(self, now_ms: int) -> CoordinatorResult:
        """Every `offsets_retention_check_interval_ms`: deletes expired offsets, and empty groups without offsets."""
        result = CoordinatorResult(is_atomic=False)
        for group in self._groups:
            if self._offsets.expire(group, now_ms, result) and group.is_empty:
                result.records += _tombstones_of(group)
        return result

    # ---- the log

    def on_written(self, written: WriteEvent, error: ErrorCode, now_ms: int) -> CoordinatorResult:
        """The records of a result with a `write_event` are committed, or failed with this error."""
        if not isinstance(written, GroupConverted):
            return self._classic.on_written(written, error, now_ms)
        if error is not ErrorCode.none:
            self._groups.put(written.former)
        return CoordinatorResult()

    def advance_high_watermark(self, high_watermark: int) -> None:
        self._store.advance_high_watermark(high_watermark)

    def replay(self, record: GroupRecord, offset: int, now_ms: int, producer_id: int = NO_PRODUCER_ID) -> None:
        key, value = record.key, record.value
        match key:
            case OffsetCommitKey() | LegacyOffsetCommitKey():
                partition = TopicPartition(key.topic, key.partition)
                if isinstance(value, LegacyOffsetCommitValue):
                    value = OffsetCommitValue(
                        offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
                    )
                if not isinstance(value, OffsetCommitValue):
                    self._store.delete(key.group, partition, offset)
                    return
                if key.group not in self._groups:
                    self._groups.get_or_create(key.group, now_ms)
                if producer_id == NO_PRODUCER_ID:
                    self._store.commit(key.group, partition, to_stored_offset(value, offset))
                else:
                    self._store.commit_in_transaction(
                        producer_id, key.group, partition, to_stored_offset(value, offset)
                    )
            case GroupMetadataKey():
                if isinstance(value, GroupMetadataValue):
                    self._groups.put(group_from(key.group, value, now_ms))
                else:
                    self._groups.remove(key.group)
            case _:
                assert isinstance(key, ConsumerKey)
                replay_consumer(self._groups, key, record)

    def replay_marker(self, producer_id: int, *, commits: bool, offset: int) -> None:
        """A transaction that may include offset commits has ended."""
        self._store.end_transaction(producer_id, commits=commits, marker_offset=offset)

    # ---- the cluster

    def on_topics_changed(self, names: Collection[str], *, any_created: bool) -> CoordinatorResult:
        """Call when `topics` shows the new state of these topics."""
        self._consumers.on_topics_changed(names, any_created=any_created)
        return CoordinatorResult()

    def on_topics_deleted(self, topics: Mapping[str, UUID]) -> CoordinatorResult:
        return self._offsets.on_topics_deleted(topics)

    # ---- leadership

    def on_loaded(self, now_ms: int) -> list[CoordinatorResult]:
        self._consumers.on_loaded(now_ms)
        return self._classic.on_loaded(now_ms)

    def on_unloaded(self, now_ms: int) -> CoordinatorResult:
        return self._classic.on_unloaded(now_ms)


def _tombstones_of(group: Group) -> list[GroupRecord]:
    return group_tombstones(group) if isinstance(group, ConsumerGroup) else [tombstone_of(group.group_id)]

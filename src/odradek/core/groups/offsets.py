"""Offset commands: commit, transactional commit, fetch, delete; and the expiry of offsets."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.core.groups.classic_group import ClassicGroup, State
from odradek.core.groups.commands import (
    DEFAULT_RETENTION,
    NO_LEADER_EPOCH,
    NO_OFFSET,
    NO_TIMESTAMP,
    CommitOffsets,
    CommitOffsetsInTransaction,
    CommitResponse,
    DeleteOffsets,
    DeleteOffsetsResponse,
    FetchedPartition,
    FetchedTopic,
    FetchOffsets,
    FetchOffsetsResponse,
    PartitionError,
    TopicErrors,
    TopicOffsets,
)
from odradek.core.groups.consumer_group import ConsumerGroup
from odradek.core.groups.coordinator_result import CoordinatorResult, Producer, Token
from odradek.core.groups.groups import Group, Groups
from odradek.core.groups.offset_store import OffsetStore, StoredOffset
from odradek.core.groups.records import GroupRecord, OffsetCommitKey, OffsetCommitValue
from odradek.core.groups.settings import GroupSettings
from odradek.core.groups.topics import Topics

GROUP_ID_NOT_FOUND_SINCE: Final = 9
"""Since this version a commit to an unknown group gets GROUP_ID_NOT_FOUND; before, ILLEGAL_GENERATION."""

OFFSET_VALUE_VERSION: Final = 4
EXPIRING_OFFSET_VALUE_VERSION: Final = 1
"""The only version of the record with an expiry time."""


class Offsets:
    def __init__(
        self,
        groups: Groups,
        store: OffsetStore,
        settings: GroupSettings,
        topics: Topics,
        renew_session: Callable[[ClassicGroup, str, int], None],
    ) -> None:
        self._groups = groups
        self._store = store
        self._settings = settings
        self._topics = topics
        self._renew_session = renew_session

    # ---- commit

    def commit(self, command: CommitOffsets, token: Token, now_ms: int) -> CoordinatorResult:
        try:
            group = self._group_to_commit(command.group_id, command.generation_id, command.version, now_ms)
            self._check_commit(group, command, version=command.version)
        except KafkaError as rejection:
            return CoordinatorResult(responses=[(token, rejected_commit(command.topics, rejection.code))])
        if isinstance(group, ClassicGroup):
            self._renew_session(group, command.member_id, now_ms)
        expires_ms = NO_TIMESTAMP if command.retention_ms == DEFAULT_RETENTION else now_ms + command.retention_ms
        records, response = self._commit(command.group_id, command.topics, now_ms, expires_ms)
        return CoordinatorResult(records, [], [(token, response)])

    def commit_in_transaction(
        self, command: CommitOffsetsInTransaction, token: Token, now_ms: int
    ) -> CoordinatorResult:
        try:
            if not command.group_id:
                raise KafkaError(ErrorCode.invalid_group_id)
            group = self._group_to_commit(command.group_id, command.generation_id, 0, now_ms)
            self._check_commit(group, command, version=0)
        except KafkaError as rejection:
            # Transactional producers send only generations.
            stale = rejection.code is ErrorCode.stale_member_epoch
            code = ErrorCode.illegal_generation if stale else rejection.code
            return CoordinatorResult(responses=[(token, rejected_commit(command.topics, code))])
        records, response = self._commit(command.group_id, command.topics, now_ms, NO_TIMESTAMP)
        producer = Producer(command.producer_id, command.producer_epoch)
        return CoordinatorResult(records, [], [(token, response)], producer=producer)

    def _check_commit(self, group: Group, command: CommitOffsets | CommitOffsetsInTransaction, *, version: int) -> None:
        is_transactional = isinstance(command, CommitOffsetsInTransaction)
        member = command.member_id, command.instance_id, command.generation_id
        if isinstance(group, ClassicGroup):
            group.check_offset_commit(*member, is_transactional=is_transactional)
            assert group.state is not State.DEAD, f"commit to the dead group {group.group_id}"
            return
        check = group.check_offset_commit(*member, is_transactional=is_transactional, version=version)
        if check is None:
            return
        for topic in command.topics:
            known = self._topics.by_name(topic.topic) if topic.topic_id is None else None
            topic_id = topic.topic_id if known is None else known.id
            if is_transactional and topic_id is None:
                raise KafkaError(ErrorCode.illegal_generation)
            for partition in topic.partitions:
                if not self._is_too_large(partition.metadata or ""):
                    check(topic_id, partition.partition)

    def _group_to_commit(self, group_id: str, generation_id: int, version: int, now_ms: int) -> Group:
        group = self._groups.get(group_id)
        if group is not None:
            return group
        if generation_id < 0:
            # A consumer with manual partition assignment: its first commit creates the group.
            return ClassicGroup(group_id, now_ms)
        if version >= GROUP_ID_NOT_FOUND_SINCE:
            raise KafkaError(ErrorCode.group_id_not_found, f"Group {group_id} not found.")
        raise KafkaError(ErrorCode.illegal_generation)

    def _commit(
        self, group_id: str, topics: Iterable[TopicOffsets], now_ms: int, expires_ms: int
    ) -> tuple[list[GroupRecord], CommitResponse]:
        records = []
        responses = []
        version = OFFSET_VALUE_VERSION if expires_ms == NO_TIMESTAMP else EXPIRING_OFFSET_VALUE_VERSION
        for topic in topics:
            errors = []
            for partition in topic.partitions:
                metadata = partition.metadata or ""
                if self._is_too_large(metadata):
                    errors.append(PartitionError(partition.partition, ErrorCode.offset_metadata_too_large))
                    continue
                errors.append(PartitionError(partition.partition, ErrorCode.none))
                key = OffsetCommitKey(group=group_id, topic=topic.topic, partition=partition.partition)
                value = OffsetCommitValue(
                    offset=partition.offset,
                    leader_epoch=partition.leader_epoch,
                    metadata=metadata,
                    commit_timestamp=now_ms,
                    expire_timestamp=expires_ms,
                    topic_id=topic.topic_id,
                )
                records.append(GroupRecord(key, value, version))
            responses.append(TopicErrors(topic.topic, tuple(errors), topic.topic_id))
        return records, CommitResponse(tuple(responses))

    def _is_too_large(self, metadata: str) -> bool:
        most = self._settings.offset_metadata_max_bytes
        return 2 * len(metadata) > most and len(metadata.encode("utf-16-le", "surrogatepass")) > 2 * most

    # ---- fetch

    def fetch(self, command: FetchOffsets, token: Token) -> CoordinatorResult:
        """Stable offsets may be uncommitted in the log, so that the response waits for their commit."""
        result = CoordinatorResult()
        try:
            group = self._groups.get(command.group_id)
            if isinstance(group, ConsumerGroup):
                group.check_offset_fetch(command.member_id, command.member_epoch)
        except KafkaError as rejection:
            result.responses.append((token, FetchOffsetsResponse(command.group_id, rejection.code)))
            return result
        if command.topics is None:
            response = FetchOffsetsResponse(command.group_id, ErrorCode.none, self._fetch_all(command))
        else:
            response = FetchOffsetsResponse(command.group_id, ErrorCode.none, self._fetch_some(command))
        (result.responses_after_commit if command.require_stable else result.responses).append((token, response))
        return result

    def _fetch_some(self, command: FetchOffsets) -> tuple[FetchedTopic, ...]:
        assert command.topics is not None
        find = self._store.find_latest if command.require_stable else self._store.find_committed
        topics = []
        for topic in command.topics:
            partitions = []
            for index in topic.partitions:
                partition = TopicPartition(topic.topic, index)
                found = find(command.group_id, partition)
                if found is not None and _is_of_another_topic(found, topic.topic_id):
                    found = None
                partitions.append(self._fetch_one(command, partition, found))
            topics.append(FetchedTopic(topic.topic, tuple(partitions), topic.topic_id))
        return tuple(topics)

    def _fetch_all(self, command: FetchOffsets) -> tuple[FetchedTopic, ...]:
        find = self._store.all_latest if command.require_stable else self._store.all_committed
        topics: dict[str, list[FetchedPartition]] = {}
        for partition, found in find(command.group_id).items():
            topics.setdefault(partition.topic, []).append(self._fetch_one(command, partition, found))
        return tuple(FetchedTopic(topic, tuple(partitions)) for topic, partitions in topics.items())

    def _fetch_one(
        self, command: FetchOffsets, partition: TopicPartition, found: StoredOffset | None
    ) -> FetchedPartition:
        index = partition.partition
        if command.require_stable and self._store.is_pending(command.group_id, partition):
            return FetchedPartition(index, NO_OFFSET, NO_LEADER_EPOCH, "", ErrorCode.unstable_offset_commit)
        if found is None:
            return FetchedPartition(index, NO_OFFSET, NO_LEADER_EPOCH, "", ErrorCode.none)
        return FetchedPartition(index, found.offset, found.leader_epoch, found.metadata, ErrorCode.none)

    # ---- delete

    def delete(self, command: DeleteOffsets, token: Token) -> CoordinatorResult:
        result = CoordinatorResult()
        response = self._delete(command, result)
        (result.responses if response.error is not ErrorCode.none else result.responses_after_commit).append(
            (token, response)
        )
        return result

    def _delete(self, command: DeleteOffsets, result: CoordinatorResult) -> DeleteOffsetsResponse:
        if not command.group_id:
            return DeleteOffsetsResponse(ErrorCode.invalid_group_id)
        group = self._groups.get(command.group_id)
        if group is None:
            return DeleteOffsetsResponse(ErrorCode.group_id_not_found)
        try:
            group.check_offset_delete()
        except KafkaError as rejection:
            return DeleteOffsetsResponse(rejection.code)
        topics = []
        for topic in command.topics:
            subscribed = group.is_subscribed_to(topic.topic)
            error = ErrorCode.group_subscribed_to_topic if subscribed else ErrorCode.none
            topics.append(TopicErrors(topic.topic, tuple(PartitionError(index, error) for index in topic.partitions)))
            for index in () if subscribed else topic.partitions:
                partition = TopicPartition(topic.topic, index)
                if self._is_known(command.group_id, partition):
                    result.records.append(_tombstone(command.group_id, partition))
        return DeleteOffsetsResponse(ErrorCode.none, tuple(topics))

    def _is_known(self, group_id: str, partition: TopicPartition) -> bool:
        return self._store.find_latest(group_id, partition) is not None or self._store.is_pending(group_id, partition)

    def delete_all(self, group_id: str, result: CoordinatorResult) -> None:
        """Deletes all offsets of a group, including those of open transactions."""
        for partition in dict.fromkeys((*self._store.all_latest(group_id), *self._store.all_pending(group_id))):
            result.records.append(_tombstone(group_id, partition))

    def on_topics_deleted(self, topics: Mapping[str, UUID]) -> CoordinatorResult:
        """`topics` has the ids by name: offsets of a recreated topic with the same name stay."""
        result = CoordinatorResult(is_atomic=False)
        deleted = {
            (group_id, partition): None
            for group_id, partition, value in self._store.all_offsets()
            if partition.topic in topics and value.topic_id in (None, topics[partition.topic])
        }
        result.records += [_tombstone(group_id, partition) for group_id, partition in deleted]
        return result

    # ---- expiry

    def expire(self, group: Group, now_ms: int, result: CoordinatorResult) -> bool:
        """Returns whether the group has no offsets left, not even in an open transaction."""
        offsets = self._store.all_latest(group.group_id)
        if not offsets:
            return not self._store.all_pending(group.group_id)
        if not _may_expire(group):
            return False
        all_expired = True
        for partition, offset in offsets.items():
            if (
                group.is_subscribed_to(partition.topic)
                or not self._is_expired(group, offset, now_ms)
                or self._store.is_pending(group.group_id, partition)
            ):
                all_expired = False
            else:
                result.records.append(_tombstone(group.group_id, partition))
        return all_expired and not self._store.all_pending(group.group_id)

    def _is_expired(self, group: Group, offset: StoredOffset, now_ms: int) -> bool:
        if offset.expire_timestamp_ms != NO_TIMESTAMP:
            return now_ms >= offset.expire_timestamp_ms
        since_ms = offset.commit_timestamp_ms
        if (
            isinstance(group, ClassicGroup)
            and group.protocol_type is not None
            and group.state is State.EMPTY
            and group.state_timestamp_ms is not None
        ):
            # Offsets do not expire while the group has members.
            since_ms = group.state_timestamp_ms
        return now_ms - since_ms >= self._settings.offsets_retention_ms


def _may_expire(group: Group) -> bool:
    """A group with members must be stable, and its subscriptions known."""
    if isinstance(group, ConsumerGroup):
        return True
    if group.protocol_type is None or group.state is State.EMPTY:
        return True
    return group.uses_consumer_protocol and group.subscribed_topics is not None and group.state is State.STABLE


def _is_of_another_topic(found: StoredOffset, topic_id: UUID | None) -> bool:
    """Whether the topic was deleted and recreated with the same name."""
    return topic_id is not None and found.topic_id is not None and found.topic_id != topic_id


def _tombstone(group_id: str, partition: TopicPartition) -> GroupRecord:
    key = OffsetCommitKey(group=group_id, topic=partition.topic, partition=partition.partition)
    return GroupRecord(key, None)


def rejected_commit(topics: Iterable[TopicOffsets], error: ErrorCode) -> CommitResponse:
    """The same error for every partition."""
    return CommitResponse(
        tuple(
            TopicErrors(
                topic.topic,
                tuple(PartitionError(partition.partition, error) for partition in topic.partitions),
                topic.topic_id,
            )
            for topic in topics
        )
    )

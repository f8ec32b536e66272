"""The group coordinator of one partition of `__consumer_offsets`.

A host feeds it: commands with a token each, records through `replay`, the high watermark, and the time when
`next_deadline_ms` has come. What it has to do in return is an `Outcome`, one step at a time: the records of a step are
appended and replayed before the next one is taken. Nothing here reads a clock, waits or fails half-way.

When the partition's leadership comes, the host makes a new coordinator, calls `advance` with the high watermark,
replays the log and calls `loaded`; when it goes, `unload` says who has to be told.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.group_commands import (
    CommitOffsets,
    CommitOffsetsInTransaction,
    DeleteGroups,
    DeleteGroupsAnswer,
    DeleteOffsets,
    DescribedGroup,
    FetchOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListedGroup,
    SyncGroup,
)
from odradek.base.ids import TopicPartition
from odradek.records.batch import NO_PRODUCER_ID

from .classic_group import ClassicGroup, State
from .classic_protocol import ClassicProtocol
from .classic_records import group_from, tombstone_of
from .groups import Groups
from .offset_store import OffsetStore, stored
from .offsets import Offsets
from .outcome import Outcome, Token, Written
from .records import (
    GroupMetadataKey,
    GroupMetadataValue,
    GroupRecord,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from .settings import GroupSettings
from .views import describe_groups, list_groups

Command = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | CommitOffsets
    | CommitOffsetsInTransaction
    | FetchOffsets
    | DeleteOffsets
    | DeleteGroups
)


class GroupCoordinator:
    def __init__(self, settings: GroupSettings, new_uuid: Callable[[], UUID]) -> None:
        self._settings = settings
        self._groups = Groups()
        self._store = OffsetStore()
        self._classic = ClassicProtocol(self._groups, settings, new_uuid)
        self._offsets = Offsets(self._groups, self._store, settings, self._classic.heard_of)

    # ---- commands

    def handle(self, command: Command, token: Token, now_ms: int) -> Outcome:
        match command:
            case Heartbeat():
                return self._classic.heartbeat(command, token, now_ms)
            case CommitOffsets():
                return self._offsets.commit(command, token, now_ms)
            case FetchOffsets():
                return self._offsets.fetch(command, token)
            case JoinGroup():
                return self._classic.join(command, token, now_ms)
            case SyncGroup():
                return self._classic.sync(command, token)
            case LeaveGroup():
                return self._classic.leave(command, token, now_ms)
            case CommitOffsetsInTransaction():
                return self._offsets.commit_in_transaction(command, token, now_ms)
            case DeleteOffsets():
                return self._offsets.delete(command, token)
            case DeleteGroups():
                return self._delete_groups(command, token)

    def _delete_groups(self, command: DeleteGroups, token: Token) -> Outcome:
        out = Outcome()
        results = []
        for group_id in command.group_ids:
            group = self._groups.get(group_id)
            try:
                if group is None:
                    raise KafkaError(ErrorCode.group_id_not_found, f"Group {group_id} not found.")
                group.check_delete()
            except KafkaError as refusal:
                results.append((group_id, refusal.code))
                continue
            self._offsets.delete_all(group_id, out)
            out.records.append(tombstone_of(group_id))
            results.append((group_id, ErrorCode.none))
        out.answers_when_committed.append((token, DeleteGroupsAnswer(tuple(results))))
        return out

    def describe_groups(self, group_ids: Sequence[str], version: int) -> tuple[DescribedGroup, ...]:
        return describe_groups(self._groups, group_ids, version)

    def list_groups(self, states: Collection[str] = (), kinds: Collection[str] = ()) -> tuple[ListedGroup, ...]:
        return list_groups(self._groups, states, kinds)

    def group(self, group_id: str) -> ClassicGroup | None:
        """For who wants to look, not to change: its last rebalances, for one."""
        return self._groups.get(group_id)

    # ---- time

    def next_deadline_ms(self) -> int | None:
        return self._groups.deadlines.next_at()

    def pass_deadline(self, now_ms: int) -> Outcome | None:
        """One that has come; None if there is none. To be called until it returns None."""
        key = self._groups.deadlines.pop_due(now_ms)
        return None if key is None else self._classic.deadline(key, now_ms)

    def expire_offsets(self, now_ms: int) -> Outcome:
        """Every `offsets_retention_check_interval_ms`: offsets and groups that nobody has used for too long."""
        out = Outcome(is_atomic=False)
        for group in self._groups:
            if self._offsets.expire(group, now_ms, out) and group.state is State.EMPTY:
                out.records.append(tombstone_of(group.group_id))
        return out

    # ---- what happens in the log

    def written(self, written: Written, error: ErrorCode, now_ms: int) -> Outcome:
        """Of an outcome's `on_written`: committed, or the error with which it was not."""
        return self._classic.written(written, error, now_ms)

    def advance(self, high_watermark: int) -> None:
        self._store.advance(high_watermark)

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
                self._groups.get_or_create(key.group, now_ms)
                if producer_id == NO_PRODUCER_ID:
                    self._store.commit(key.group, partition, stored(value, offset))
                else:
                    self._store.commit_pending(producer_id, key.group, partition, stored(value, offset))
            case GroupMetadataKey():
                if isinstance(value, GroupMetadataValue):
                    self._groups.put(group_from(key.group, value, now_ms))
                else:
                    self._groups.remove(key.group)

    def replay_marker(self, producer_id: int, *, commits: bool, offset: int) -> None:
        """The end of a transaction that has, or may have, committed offsets."""
        self._store.end_transaction(producer_id, commits=commits, marker_offset=offset)

    def topics_deleted(self, topics: Mapping[str, UUID]) -> Outcome:
        return self._offsets.topics_deleted(topics)

    # ---- leadership

    def loaded(self, now_ms: int) -> list[Outcome]:
        return self._classic.loaded(now_ms)

    def unload(self, now_ms: int) -> Outcome:
        return self._classic.unload(now_ms)

"""Committed offsets: the state of their records in the log.

It has two views. Commands see all written offsets, committed in the log or not. Clients that fetch see only those below
the high watermark: for every change above it, the former value is kept. Offsets of open transactions are separate until
a marker ends the transaction.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from odradek.base.ids import TopicPartition
from odradek.core.groups.records import OffsetCommitValue


class StoredOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    """-1: the coordinator's retention applies."""
    topic_id: UUID | None
    record_offset: int
    """The offset of its record in the log."""


def to_stored_offset(value: OffsetCommitValue, record_offset: int) -> StoredOffset:
    return StoredOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
        record_offset,
    )


_Offsets = dict[TopicPartition, StoredOffset]
_Before = deque[tuple[int, StoredOffset | None]]


class OffsetStore:
    def __init__(self) -> None:
        self._latest: dict[str, _Offsets] = {}
        self._before: dict[str, dict[TopicPartition, _Before]] = {}
        """By group and partition: the log offset of each change above the high watermark, and the former value."""
        self._changes: deque[tuple[int, str, TopicPartition]] = deque()
        self._high_watermark = 0
        self._pending: dict[int, dict[str, _Offsets]] = {}
        """By producer id."""
        self._open: dict[str, dict[TopicPartition, set[int]]] = {}
        """By group and partition: the producers with open transactions that commit its offset."""

    # ---- replay

    def commit(self, group_id: str, partition: TopicPartition, value: StoredOffset) -> None:
        self._change(group_id, partition, value, value.record_offset)

    def commit_in_transaction(
        self, producer_id: int, group_id: str, partition: TopicPartition, value: StoredOffset
    ) -> None:
        self._pending.setdefault(producer_id, {}).setdefault(group_id, {})[partition] = value
        self._open.setdefault(group_id, {}).setdefault(partition, set()).add(producer_id)

    def delete(self, group_id: str, partition: TopicPartition, record_offset: int) -> None:
        """Also in open transactions."""
        self._change(group_id, partition, None, record_offset)
        for producer_id in self._open.get(group_id, {}).get(partition, set()).copy():
            del self._pending[producer_id][group_id][partition]
            self._close(producer_id, group_id, partition)

    def end_transaction(self, producer_id: int, *, commits: bool, marker_offset: int) -> None:
        for group_id, offsets in self._pending.pop(producer_id, {}).items():
            for partition, value in offsets.items():
                self._close(producer_id, group_id, partition)
                if commits:
                    current = self.find_latest(group_id, partition)
                    # A later commit outside of the transaction wins.
                    if current is None or value.record_offset > current.record_offset:
                        self._change(group_id, partition, value, marker_offset)

    def advance_high_watermark(self, high_watermark: int) -> None:
        self._high_watermark = max(self._high_watermark, high_watermark)
        while self._changes and self._changes[0][0] < self._high_watermark:
            _, group_id, partition = self._changes.popleft()
            of_group = self._before[group_id]
            of_group[partition].popleft()
            if not of_group[partition]:
                del of_group[partition]
                if not of_group:
                    del self._before[group_id]

    def _change(self, group_id: str, partition: TopicPartition, value: StoredOffset | None, record_offset: int) -> None:
        offsets = self._latest.setdefault(group_id, {})
        if record_offset >= self._high_watermark:
            before = self._before.setdefault(group_id, {}).setdefault(partition, deque())
            before.append((record_offset, offsets.get(partition)))
            self._changes.append((record_offset, group_id, partition))
        if value is not None:
            offsets[partition] = value
            return
        offsets.pop(partition, None)
        if not offsets:
            del self._latest[group_id]

    def _close(self, producer_id: int, group_id: str, partition: TopicPartition) -> None:
        of_group = self._open[group_id]
        of_group[partition].discard(producer_id)
        if not of_group[partition]:
            del of_group[partition]
            if not of_group:
                del self._open[group_id]

    # ---- reads

    def find_latest(self, group_id: str, partition: TopicPartition) -> StoredOffset | None:
        return self._latest.get(group_id, {}).get(partition)

    def find_committed(self, group_id: str, partition: TopicPartition) -> StoredOffset | None:
        before = self._before.get(group_id, {}).get(partition)
        return self.find_latest(group_id, partition) if before is None else before[0][1]

    def all_latest(self, group_id: str) -> dict[TopicPartition, StoredOffset]:
        return dict(self._latest.get(group_id, {}))

    def all_committed(self, group_id: str) -> dict[TopicPartition, StoredOffset]:
        offsets = self.all_latest(group_id)
        for partition, before in self._before.get(group_id, {}).items():
            former = before[0][1]
            if former is None:
                offsets.pop(partition, None)
            else:
                offsets[partition] = former
        return offsets

    def is_pending(self, group_id: str, partition: TopicPartition) -> bool:
        return partition in self._open.get(group_id, ())

    def all_pending(self, group_id: str) -> list[TopicPartition]:
        return list(self._open.get(group_id, ()))

    def all_offsets(self) -> Iterator[tuple[str, TopicPartition, StoredOffset]]:
        """Group, partition and offset, including those of open transactions."""
        for by_group in (self._latest, *self._pending.values()):
            for group_id, offsets in by_group.items():
                for partition, value in offsets.items():
                    yield group_id, partition, value

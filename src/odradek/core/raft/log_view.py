"""A replica's view of its log: start and end, epochs, snapshots, and the synced end.

The records themselves belong to the driver. Every log change has a number, and the driver reports up to which number
all changes are synced, so that truncated records are not mistaken for those that replaced them.
"""

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft.batch import Batch, OffsetAndEpoch
from odradek.core.raft.errors import BrokenQuorum

BOOTSTRAP_SNAPSHOT = SnapshotId(0, 0)
"""The snapshot of a formatted directory. It is not replicated: the first leader writes its records to the log."""


class EpochStart(NamedTuple):
    epoch: int
    offset: int


@dataclass(frozen=True, slots=True)
class Valid:
    """The fetcher's log is a prefix of this one."""


@dataclass(frozen=True, slots=True)
class Diverging:
    end: OffsetAndEpoch
    """The end of the largest local epoch that is not larger than the fetcher's last epoch."""


@dataclass(frozen=True, slots=True)
class BehindSnapshot:
    snapshot_id: SnapshotId


class LogView:
    """Epochs and snapshots ascend; `epochs[0]` is the epoch of the record before the start, 0 for an empty log."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.end_offset = 0
        self.synced_end_offset = 0
        self.epochs: list[EpochStart] = [EpochStart(0, 0)]
        self.snapshots: dict[SnapshotId, int] = {}
        """Sizes in bytes."""
        self.loading: SnapshotId | None = None
        """A snapshot with which the driver is replacing the log."""
        self._last_change = 0
        self._unsynced: deque[tuple[int, int]] = deque()
        """Changes that may not be synced yet, with the log end offset after each."""

    # Reading

    @property
    def last_epoch(self) -> int:
        return self.epochs[-1].epoch

    @property
    def end(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(self.end_offset, self.last_epoch)

    @property
    def synced_end(self) -> OffsetAndEpoch:
        """The log end after a power loss."""
        return OffsetAndEpoch(self.synced_end_offset, self.epoch_before(self.synced_end_offset))

    @property
    def is_synced(self) -> bool:
        return self.synced_end_offset == self.end_offset and self.loading is None

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return max(self.snapshots, default=None)

    def epoch_before(self, offset: int) -> int:
        """The epoch of the record at `offset - 1`, or of the record before the log start."""
        index = bisect_right(self.epochs, offset - 1, lo=1, key=lambda start: start.offset)
        return self.epochs[index - 1].epoch

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The end of the largest epoch that is not larger than this one."""
        index = max(1, bisect_right(self.epochs, epoch, key=lambda start: start.epoch))
        end_offset = self.epochs[index].offset if index < len(self.epochs) else self.end_offset
        return OffsetAndEpoch(end_offset, self.epochs[index - 1].epoch)

    def compare(self, offset: int, epoch: int) -> Valid | Diverging | BehindSnapshot:
        """Compares with a fetcher whose log ends at `offset` with a record of `epoch`."""
        latest = self.latest_snapshot
        if offset == 0 and latest is not None and latest != BOOTSTRAP_SNAPSHOT:
            # For an empty log, a snapshot is faster than all the records before its end.
            return BehindSnapshot(latest)
        if self.start_offset == 0 and offset == 0:
            return Valid()
        base = self.epochs[0]
        is_before_start = offset < self.start_offset or epoch < base.epoch
        is_other_start = offset == self.start_offset and epoch != base.epoch
        if self.start_offset > 0 and (is_before_start or is_other_start):
            if latest is None:
                raise BrokenQuorum(f"the log starts at {self.start_offset} without a snapshot before it")
            return BehindSnapshot(latest)
        end = self.end_of_epoch(epoch)
        return Valid() if end.epoch == epoch and offset <= end.offset else Diverging(end)

    def truncation_point(self, leader_end: OffsetAndEpoch) -> int:
        """The largest offset up to which this log can equal the log of a leader with this epoch end."""
        own = self.end_of_epoch(leader_end.epoch)
        return min(own.offset, leader_end.offset) if own.epoch == leader_end.epoch else own.offset

    # Changes: each has a number

    def append(self, batch: Batch) -> int:
        if batch.base_offset != self.end_offset or batch.epoch < self.last_epoch:
            raise BrokenQuorum(f"a batch at {batch.base_offset} of epoch {batch.epoch} does not follow {self.end}")
        assert batch.base_offset <= batch.last_offset, f"the batch at {batch.base_offset} is empty"
        if batch.epoch > self.last_epoch:
            self.epochs.append(EpochStart(batch.epoch, batch.base_offset))
        self.end_offset = batch.last_offset + 1
        return self._record_change()

    def truncate(self, end_offset: int) -> int:
        if not self.start_offset <= end_offset <= self.end_offset:
            raise BrokenQuorum(
                f"the log from {self.start_offset} to {self.end_offset} cannot be truncated to {end_offset}"
            )
        while len(self.epochs) > 1 and self.epochs[-1].offset >= end_offset:
            self.epochs.pop()
        self.end_offset = end_offset
        self.synced_end_offset = min(self.synced_end_offset, end_offset)
        self._unsynced = deque((change, min(end, end_offset)) for change, end in self._unsynced)
        return self._record_change()

    def begin_loading(self, snapshot_id: SnapshotId) -> int:
        self.loading = snapshot_id
        self._last_change += 1
        return self._last_change

    def on_loaded(self, snapshot_id: SnapshotId, size_bytes: int) -> None:
        """The log is empty now, starts at the snapshot's end, and is synced."""
        self.loading = None
        self.start_offset = self.end_offset = self.synced_end_offset = snapshot_id.end_offset
        self.epochs = [EpochStart(snapshot_id.epoch, snapshot_id.end_offset)]
        self.snapshots[snapshot_id] = size_bytes
        self._unsynced.clear()

    def on_synced(self, change: int) -> None:
        while self._unsynced and self._unsynced[0][0] <= change:
            self.synced_end_offset = max(self.start_offset, self._unsynced.popleft()[1])
        self._check()

    def advance_start(self, snapshot_id: SnapshotId) -> None:
        """The driver has deleted the log before the snapshot's end, and older snapshots. The snapshot is durable."""
        if snapshot_id not in self.snapshots or self.epoch_before(snapshot_id.end_offset) != snapshot_id.epoch:
            raise BrokenQuorum(f"the log cannot start at the end of {snapshot_id}, which it does not contain")
        self.start_offset = snapshot_id.end_offset
        self.synced_end_offset = max(self.synced_end_offset, snapshot_id.end_offset)
        later = [start for start in self.epochs[1:] if start.offset >= snapshot_id.end_offset]
        self.epochs = [EpochStart(snapshot_id.epoch, snapshot_id.end_offset), *later]
        self.snapshots = {one: size for one, size in self.snapshots.items() if one >= snapshot_id}

    def _check(self) -> None:
        assert self.start_offset <= self.synced_end_offset <= self.end_offset, (
            f"log start {self.start_offset}, synced end {self.synced_end_offset}, end {self.end_offset}: wrong order"
        )
        assert self.epochs[-1].offset <= self.end_offset, (
            f"{self.epochs[-1]} begins after the log end {self.end_offset}"
        )

    def _record_change(self) -> int:
        self._check()
        self._last_change += 1
        self._unsynced.append((self._last_change, self.end_offset))
        return self._last_change

"""The start offset of each leader epoch of a partition, stored in `leader-epoch-checkpoint`.

Epochs and their start offsets both increase. A new epoch is synced before its first batch. Truncated entries may
reappear after a crash, and recovery truncates them again.
"""

from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

from odradek.base.ports import Disk
from odradek.core.replication.epochs import EpochEnd
from odradek.storage.log.checkpoints import MalformedCheckpoint, decode_lines, encode_lines
from odradek.storage.log.names import LEADER_EPOCH_CHECKPOINT

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class LeaderEpochs:
    __slots__ = ("_directory", "_disk", "_latest", "_unwritten", "entries")

    def __init__(self, disk: Disk, directory: str, entries: list[EpochEntry] | None = None) -> None:
        self._disk = disk
        self._directory = directory
        # Ascending in both fields. Replaced, never modified, so that readers see one state.
        self.entries: list[EpochEntry] = entries or []
        self._latest = self.entries[-1].epoch if self.entries else UNDEFINED_EPOCH
        self._unwritten = False

    @classmethod
    def read(cls, disk: Disk, directory: str) -> "LeaderEpochs":
        path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
        epochs = cls(disk, directory)
        if disk.exists(path):
            try:
                for epoch, start_offset in decode_lines(disk.read_bytes(path), path):
                    epochs._place(EpochEntry(int(epoch), int(start_offset)))
            except ValueError as error:
                raise MalformedCheckpoint(f"{path}: {error}") from None
        return epochs

    @property
    def latest_epoch(self) -> int | None:
        return self._latest if self._latest >= 0 else None

    @property
    def earliest(self) -> EpochEntry | None:
        entries = self.entries
        return entries[0] if entries else None

    def assign(self, epoch: int, start_offset: int) -> None:
        """Starts an epoch. Removes conflicting entries, which a leader without appends has left."""
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} cannot start at offset {start_offset}")
        if epoch == self._latest and start_offset >= self.entries[-1].start_offset:
            return
        before = self.entries
        self._place(EpochEntry(epoch, start_offset))
        try:
            self._write()
        except OSError:
            self._set(before)
            raise

    def assign_unwritten(self, epoch: int, start_offset: int) -> None:
        """Like `assign`, but written by the next `write_if_changed`, before the batches are flushed."""
        if epoch != self._latest or start_offset < self.entries[-1].start_offset:
            self._place(EpochEntry(epoch, start_offset))
            self._unwritten = True

    def _place(self, entry: EpochEntry) -> None:
        kept = [old for old in self.entries if old.epoch < entry.epoch and old.start_offset < entry.start_offset]
        self._set([*kept, entry])

    def _set(self, entries: list[EpochEntry]) -> None:
        assert all(
            one.epoch < following.epoch and one.start_offset < following.start_offset
            for one, following in pairwise(entries)
        ), f"leader epochs are not in order: {entries}"
        self.entries = entries
        self._latest = entries[-1].epoch if entries else UNDEFINED_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The largest epoch that is at most `epoch`, and its end offset: the result of OffsetForLeaderEpoch."""
        undefined = EpochEnd(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)
        if epoch == UNDEFINED_EPOCH:
            return undefined
        entries = self.entries
        if entries and epoch == entries[-1].epoch:
            return EpochEnd(epoch, log_end_offset)
        above = bisect_right(entries, epoch, key=lambda entry: entry.epoch)
        if above == len(entries):
            return undefined
        # Before the first known epoch: its records are deleted, and it ended where the first known epoch starts.
        found = entries[above - 1].epoch if above else epoch
        return EpochEnd(found, entries[above].start_offset)

    def epoch_for_offset(self, offset: int) -> int | None:
        entries = self.entries
        above = bisect_right(entries, offset, key=lambda entry: entry.start_offset)
        return entries[above - 1].epoch if above else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Removes the epochs that start at or after this offset."""
        kept = [entry for entry in self.entries if entry.start_offset < end_offset]
        if len(kept) != len(self.entries):
            self._set(kept)
            self._unwritten = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Removes the epochs that end before this offset; the one that contains it then starts there."""
        passed = [entry for entry in self.entries if entry.start_offset <= start_offset]
        if passed and (len(passed) > 1 or passed[0].start_offset != start_offset):
            self._set([EpochEntry(passed[-1].epoch, start_offset), *self.entries[len(passed) :]])
            self._unwritten = True

    def clear(self) -> None:
        self._set([])
        self._write()

    def write_if_changed(self) -> None:
        if self._unwritten:
            self._write()

    def move_to(self, directory: str) -> None:
        self._directory = directory

    def _write(self) -> None:
        entries = None
        # A flush and an append may write at the same time: if the entries changed meanwhile, it is unknown which write
        # came last, so write again.
        while entries is not self.entries:
            entries = self.entries
            self._unwritten = False
            lines = [f"{entry.epoch} {entry.start_offset}" for entry in entries]
            try:
                self._disk.write_atomically(f"{self._directory}/{LEADER_EPOCH_CHECKPOINT}", encode_lines(lines))
            except OSError:
                self._unwritten = True
                raise

"""The simulated log of a replica: records with their epochs, the synced end, and what a crash leaves.

It uses the real leader-epoch history, so that truncation is tested with all its corner cases.
"""

from random import Random
from typing import NamedTuple, cast

from odradek.base.ports import Disk
from odradek.storage.log.leader_epochs import LeaderEpochs


class Record(NamedTuple):
    epoch: int
    value: int


class ModelLog:
    def __init__(self) -> None:
        self.log_start_offset = 0
        self.records: list[Record] = []
        """Starts at `base_offset`."""
        self.base_offset = 0
        self.synced_end_offset = 0
        self.epochs = _no_epochs()

    @property
    def log_end_offset(self) -> int:
        return self.base_offset + len(self.records)

    def append_as_leader(self, epoch: int, value: int) -> int:
        self.records.append(Record(epoch, value))
        return self.log_end_offset

    def append_as_follower(self, records: tuple[Record, ...]) -> None:
        for record in records:
            self.epochs.assign_unwritten(record.epoch, self.log_end_offset)
            self.records.append(record)

    def read(self, offset: int, records_max: int) -> tuple[Record, ...]:
        first = offset - self.base_offset
        return tuple(self.records[first : first + records_max])

    def record_at(self, offset: int) -> Record | None:
        """None if the record is not in the log or below the log start offset."""
        if not self.log_start_offset <= offset < self.log_end_offset:
            return None
        return self.records[offset - self.base_offset]

    def truncate_to(self, offset: int) -> None:
        if offset < self.base_offset:
            self.truncate_fully_to(offset)
        elif offset < self.log_end_offset:
            del self.records[offset - self.base_offset :]
            self.synced_end_offset = min(self.synced_end_offset, offset)
            self.log_start_offset = min(self.log_start_offset, offset)
        self.epochs.truncate_from_end(self.log_end_offset)

    def truncate_fully_to(self, offset: int) -> None:
        self.records.clear()
        self.base_offset = self.log_start_offset = self.synced_end_offset = offset
        self.epochs = _no_epochs()

    def advance_log_start(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_from_start(offset)

    def sync(self) -> None:
        self.synced_end_offset = self.log_end_offset

    def crash(self, random: Random, *, loses_power: bool) -> None:
        """A power loss drops any number of the last unsynced records. An epoch without records may be forgotten; any
        other epoch is restored from its records."""
        if loses_power:
            kept = random.randint(self.synced_end_offset, self.log_end_offset)
            del self.records[kept - self.base_offset :]
            self.log_start_offset = min(self.log_start_offset, kept)
            self.sync()
        former = self.epochs.entries
        self.epochs = _no_epochs()
        for offset, record in enumerate(self.records, self.base_offset):
            self.epochs.assign_unwritten(record.epoch, offset)
        self.epochs.truncate_from_start(self.log_start_offset)
        if former and former[-1].start_offset == self.log_end_offset and random.random() < 0.5:
            self.epochs.assign_unwritten(*former[-1])


def _no_epochs() -> LeaderEpochs:
    return LeaderEpochs(cast(Disk, None), "")

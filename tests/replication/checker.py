"""Checks invariants 1, 2, 7, 8, 16 and 17 from outside: it sees logs, client responses and the controller's images.

The checker shares no code with the state machines. A record is committed once a leader has returned it to consumers or
acknowledged it; the checker stores it with that leader's epoch.
"""

from dataclasses import dataclass
from typing import Protocol

from tests.replication.controller import Controller, Image
from tests.replication.model_log import ModelLog, Record


class Violation(AssertionError):
    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant


class Replica(Protocol):
    """The part of a broker that the checker sees."""

    broker_id: int
    log: ModelLog
    life: int
    is_running: bool


@dataclass(frozen=True, slots=True)
class Committed:
    record: Record
    epoch: int
    """Epoch of the leader that committed it."""


class Checker:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._replicas: dict[int, Replica] = {}
        self.committed: dict[int, Committed] = {}
        self.acknowledged = 0
        self._deleted_before = 0
        self._high_watermarks: dict[tuple[int, int], int] = {}
        """By broker and leader epoch."""
        self._returned: dict[int, int] = {}
        """The highest offset returned to clients, by leader epoch."""
        self._version = 0

    def watch(self, replica: Replica) -> None:
        self._replicas[replica.broker_id] = replica

    # Leaders

    def on_leadership(self, replica: Replica, epoch: int) -> None:
        for offset, committed in self.committed.items():
            if committed.epoch < epoch and not self._has(replica, offset):
                raise Violation(
                    "a leader has all committed records", f"{replica.broker_id} of epoch {epoch} lacks {offset}"
                )

    def high_watermark(self, replica: Replica, epoch: int, offset: int, known: Image, *, is_returned: bool) -> None:
        """The leader's high watermark. `known` is the last image that the leader has applied."""
        former = self._high_watermarks.get((replica.broker_id, epoch))
        if offset > replica.log.log_end_offset:
            raise Violation("the high watermark never exceeds the log end", f"{replica.broker_id} reported {offset}")
        if former is not None and offset < former:
            raise Violation("the high watermark never decreases", f"{replica.broker_id} fell from {former} to {offset}")
        self._high_watermarks[replica.broker_id, epoch] = offset
        if former is not None and offset > former:
            self._check_min_isr(replica, known)
        for one in range(former or replica.log.log_start_offset, offset):
            self._commit(replica, one, epoch)
        if is_returned:
            self._check_returned(epoch, offset)

    def _check_min_isr(self, replica: Replica, known: Image) -> None:
        """The leader may know later images than its last one from AlterPartition responses."""
        later = self._controller.images[known.version :]
        if all(len(image.partition.isr) < self._controller.min_isr(image) for image in later):
            raise Violation("the high watermark does not advance below min ISR", f"{replica.broker_id} advanced it")

    def _check_returned(self, epoch: int, offset: int) -> None:
        earlier = max((returned for other, returned in self._returned.items() if other < epoch), default=0)
        if offset < earlier:
            raise Violation("offsets returned to clients never decrease", f"{offset} in epoch {epoch} after {earlier}")
        self._returned[epoch] = offset

    def acknowledge(self, replica: Replica, offset: int, epoch: int, value: int) -> None:
        record = replica.log.record_at(offset)
        if offset >= self._deleted_before and (record is None or record.value != value):
            raise Violation("an acknowledged record is at its offset", f"{offset} is {record}, not {value}")
        self._commit(replica, offset, epoch)
        self.acknowledged += 1

    def _commit(self, replica: Replica, offset: int, epoch: int) -> None:
        record = replica.log.record_at(offset)
        if record is None:
            return
        known = self.committed.get(offset)
        if known is not None:
            if known.record != record:
                raise Violation("one offset has one value", f"{offset} is {known.record} and {record}")
            return
        self.committed[offset] = Committed(record, epoch)
        for member in self._members(self._controller.image):
            self._check_member(member, offset)

    def on_records_deleted(self, offset: int) -> None:
        self._deleted_before = max(self._deleted_before, offset)

    # Followers

    def on_follower_progress(self, replica: Replica, former: int, offset: int) -> None:
        if offset > replica.log.log_end_offset:
            raise Violation("the high watermark never exceeds the log end", f"{replica.broker_id} has {offset}")
        for one in range(former, offset):
            record = replica.log.record_at(one)
            known = self.committed.get(one)
            if record is not None and (known is None or known.record != record):
                raise Violation("one offset has one value", f"{one} is {known} and, on {replica.broker_id}, {record}")

    def on_truncation(self, replica: Replica, offset: int) -> None:
        for one in range(max(offset, self._deleted_before), replica.log.log_end_offset):
            known = self.committed.get(one)
            if known is not None and known.record == replica.log.record_at(one):
                raise Violation("committed records are never truncated", f"{replica.broker_id} truncates {one}")

    # Members of ISR and ELR

    def on_image_published(self) -> None:
        image = self._controller.image
        if image.version == self._version:
            return
        former = self._controller.images[self._version].partition
        self._version = image.version
        for member in self._members(image):
            if member.broker_id not in (*former.isr, *former.elr):
                for offset in self.committed:
                    self._check_member(member, offset)

    def _members(self, image: Image) -> list[Replica]:
        """Running members whose current incarnation is registered."""
        ids = (*image.partition.isr, *image.partition.elr)
        members = [self._replicas[one] for one in ids]
        return [
            one
            for one in members
            if one.is_running and one.broker_id in image.brokers and image.brokers[one.broker_id].life == one.life
        ]

    def _check_member(self, member: Replica, offset: int) -> None:
        if not self._has(member, offset):
            raise Violation("members of ISR and ELR have all committed records", f"{member.broker_id} lacks {offset}")

    def _has(self, replica: Replica, offset: int) -> bool:
        if offset < max(replica.log.log_start_offset, self._deleted_before):
            return True
        return replica.log.record_at(offset) == self.committed[offset].record

    # End of the run
    def check_all(self) -> None:
        for replica in self._members(self._controller.image):
            for offset in self.committed:
                self._check_member(replica, offset)

"""Invariants 1, 2, 7, 8, 16 and 17, seen from outside: logs, what is told, and the controller's word.

The checker shares no code with the machines that it checks. Committed is what a leader has let clients see, or has
acknowledged; it is remembered with the epoch of that leader.
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
    """What is looked at of a broker."""

    broker_id: int
    log: ModelLog
    life: int
    is_running: bool


@dataclass(frozen=True, slots=True)
class Committed:
    record: Record
    epoch: int
    """Of the leader that committed it."""


class Checker:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._replicas: dict[int, Replica] = {}
        self.committed: dict[int, Committed] = {}
        self.acknowledged = 0
        self._deleted_before = 0
        self._high_watermarks: dict[tuple[int, int], int] = {}
        """By broker and the epoch that it leads."""
        self._told: dict[int, int] = {}
        """The highest offset that clients were told, by leader epoch."""
        self._version = 0

    def watch(self, replica: Replica) -> None:
        self._replicas[replica.broker_id] = replica

    # Leaders

    def began(self, replica: Replica, epoch: int) -> None:
        for offset, committed in self.committed.items():
            if committed.epoch < epoch and not self._has(replica, offset):
                raise Violation(
                    "a leader has all that is committed", f"{replica.broker_id} of epoch {epoch} lacks {offset}"
                )

    def high_watermark(self, replica: Replica, epoch: int, offset: int, known: Image, *, is_told: bool) -> None:
        """A leader's. `known` is the last image it has heard of."""
        former = self._high_watermarks.get((replica.broker_id, epoch))
        if offset > replica.log.log_end_offset:
            raise Violation("nothing is committed beyond the end", f"{replica.broker_id} said {offset}")
        if former is not None and offset < former:
            raise Violation("the high watermark only grows", f"{replica.broker_id} fell from {former} to {offset}")
        self._high_watermarks[replica.broker_id, epoch] = offset
        if former is not None and offset > former:
            self._check_enough(replica, known)
        for one in range(former or replica.log.log_start_offset, offset):
            self._commit(replica, one, epoch)
        if is_told:
            self._check_told(epoch, offset)

    def _check_enough(self, replica: Replica, known: Image) -> None:
        """It may have heard of later images than the last one, from the controller's answers."""
        later = self._controller.images[known.version :]
        if all(len(image.partition.isr) < self._controller.min_isr(image) for image in later):
            raise Violation("below min ISR the high watermark stands still", f"{replica.broker_id} moved it")

    def _check_told(self, epoch: int, offset: int) -> None:
        earlier = max((told for its_epoch, told in self._told.items() if its_epoch < epoch), default=0)
        if offset < earlier:
            raise Violation("offsets that clients are told never fall", f"{offset} in epoch {epoch} after {earlier}")
        self._told[epoch] = offset

    def acknowledge(self, replica: Replica, offset: int, epoch: int, value: int) -> None:
        record = replica.log.record_at(offset)
        if offset >= self._deleted_before and (record is None or record.value != value):
            raise Violation("what is acknowledged is where it was said to be", f"{offset} is {record}, not {value}")
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

    def deleted(self, offset: int) -> None:
        self._deleted_before = max(self._deleted_before, offset)

    # Followers

    def followed(self, replica: Replica, former: int, offset: int) -> None:
        if offset > replica.log.log_end_offset:
            raise Violation("nothing is committed beyond the end", f"{replica.broker_id} has {offset}")
        for one in range(former, offset):
            record = replica.log.record_at(one)
            known = self.committed.get(one)
            if record is not None and (known is None or known.record != record):
                raise Violation("one offset has one value", f"{one} is {known} and, on {replica.broker_id}, {record}")

    def truncates(self, replica: Replica, offset: int) -> None:
        for one in range(max(offset, self._deleted_before), replica.log.log_end_offset):
            known = self.committed.get(one)
            if known is not None and known.record == replica.log.record_at(one):
                raise Violation("what is committed stays", f"{replica.broker_id} cuts off {one}")

    # Members of ISR and ELR

    def published(self) -> None:
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
        """Those that run, and that the controller knows in this life."""
        ids = (*image.partition.isr, *image.partition.elr)
        members = [self._replicas[one] for one in ids]
        return [
            one
            for one in members
            if one.is_running and one.broker_id in image.brokers and image.brokers[one.broker_id].life == one.life
        ]

    def _check_member(self, member: Replica, offset: int) -> None:
        if not self._has(member, offset):
            raise Violation("members of ISR and ELR have all that is committed", f"{member.broker_id} lacks {offset}")

    def _has(self, replica: Replica, offset: int) -> bool:
        if offset < max(replica.log.log_start_offset, self._deleted_before):
            return True
        return replica.log.record_at(offset) == self.committed[offset].record

    # The end

    def check_all(self) -> None:
        for replica in self._members(self._controller.image):
            for offset in self.committed:
                self._check_member(replica, offset)

"""Batches of the log as consensus sees them, and positions between them. The contents belong to the driver."""

from dataclasses import dataclass
from typing import NamedTuple

from odradek.records.control import ControlMessage


class OffsetAndEpoch(NamedTuple):
    """The end of a log, or of one epoch in it: an offset, and the epoch of the record before it."""

    offset: int
    epoch: int

    @property
    def freshness(self) -> tuple[int, int]:
        """A log is up to date with another one if it is not lower in this order."""
        return (self.epoch, self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    base_offset: int
    last_offset: int
    epoch: int
    control: tuple[ControlMessage, ...] = ()
    """A control batch's messages, one per offset; the driver encodes them."""
    data: bytes = b""
    """A data batch's bytes. If this replica is the leader, the driver sets their offsets and epoch."""

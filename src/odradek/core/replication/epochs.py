"""Finds where a follower's log diverges from its leader's, by leader epochs.

All records of one epoch come from one leader, so two logs that contain the same epoch agree on it up to the shorter
one's end of that epoch. High watermarks cannot show this: a follower learns them late.
"""

from typing import Final, NamedTuple, Protocol

from odradek.base.errors import ErrorCode, KafkaError

UNDEFINED: Final = -1
"""No such epoch, and no such offset."""


class EpochEnd(NamedTuple):
    epoch: int
    end_offset: int


class EpochHistory(Protocol):
    @property
    def latest_epoch(self) -> int | None: ...

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch that is at most `epoch`, and its end offset; both undefined if there is none."""


class ReplicaLog(Protocol):
    """The parts of a log that replication reads."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def epochs(self) -> EpochHistory: ...


def divergence(log: ReplicaLog, fetch_offset: int, last_fetched_epoch: int) -> EpochEnd | None:
    """On the leader: None if the follower's log, which ends at `fetch_offset` with a record of `last_fetched_epoch`,
    agrees with this log; otherwise the largest epoch at which both may agree, and its end here.

    Raises KafkaError if the fetch offset is outside this log.
    """
    if not log.log_start_offset <= fetch_offset <= log.log_end_offset and last_fetched_epoch == UNDEFINED:
        raise _out_of_range(log, fetch_offset)
    if last_fetched_epoch == UNDEFINED:
        return None
    found = EpochEnd(*log.epochs.end_offset_for(last_fetched_epoch, log.log_end_offset))
    if UNDEFINED in found or fetch_offset < log.log_start_offset:
        raise _out_of_range(log, fetch_offset)
    return found if found.epoch < last_fetched_epoch or found.end_offset < fetch_offset else None


def _out_of_range(log: ReplicaLog, fetch_offset: int) -> KafkaError:
    available = f"the log contains {log.log_start_offset} to {log.log_end_offset}"
    return KafkaError(ErrorCode.offset_out_of_range, f"fetch offset {fetch_offset} is out of range: {available}")


def truncation_point(log: ReplicaLog, leader: EpochEnd) -> int:
    """On the follower: the offset up to which its log may agree with the leader's. The next Fetch verifies it."""
    end_offset = log.log_end_offset
    own_epoch, own_end_offset = log.epochs.end_offset_for(leader.epoch, end_offset)
    if own_epoch == UNDEFINED:
        return min(leader.end_offset, end_offset)
    if own_epoch != leader.epoch:
        # The leader's epoch is not in this log: truncate to the end of the epoch before it and fetch again from there.
        return min(own_end_offset, end_offset)
    return min(own_end_offset, leader.end_offset, end_offset)

"""Where a follower's log parts from its leader's, found by leader epochs.

Records of one epoch come from one leader, so two logs that share an epoch agree on it up to where the shorter one ends
it. High watermarks tell nothing of the kind: a follower learns them late.
"""

from typing import Final, NamedTuple, Protocol

from odradek.base.errors import ErrorCode, KafkaError

UNDEFINED: Final = -1
"""An epoch that nobody has led, and where it would have ended."""


class EpochEnd(NamedTuple):
    epoch: int
    end_offset: int


class EpochHistory(Protocol):
    @property
    def latest_epoch(self) -> int | None: ...

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch that is not larger than this one, and where it ends; both undefined if there is none."""


class ReplicaLog(Protocol):
    """What is asked of a log here. PartitionLog is one."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def epochs(self) -> EpochHistory: ...


def divergence(log: ReplicaLog, fetch_offset: int, last_fetched_epoch: int) -> EpochEnd | None:
    """The leader's look at a Fetch: None if the fetcher's log, which ends at `fetch_offset` with a record of
    `last_fetched_epoch`, agrees with this one; else what the fetcher has to know to find where it does.

    Raises KafkaError if this log does not reach that far, or not back to it.
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
    held = f"the log has {log.log_start_offset} to {log.log_end_offset}"
    return KafkaError(ErrorCode.offset_out_of_range, f"offset {fetch_offset} is asked for, {held}")


def truncation_point(log: ReplicaLog, leader: EpochEnd) -> int:
    """The follower's answer to it: its log may agree with the leader's up to here. The next Fetch tells."""
    end_offset = log.log_end_offset
    own_epoch, own_end_offset = log.epochs.end_offset_for(leader.epoch, end_offset)
    if own_epoch == UNDEFINED:
        return min(leader.end_offset, end_offset)
    if own_epoch != leader.epoch:
        # The leader's epoch is not here at all: everything after the one before it goes, and the question is asked
        # again from there.
        return min(own_end_offset, end_offset)
    return min(own_end_offset, leader.end_offset, end_offset)

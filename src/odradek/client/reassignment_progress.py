"""Measures the progress of ongoing reassignments from samples of replica sizes. Pure.

A reassignment that is no longer listed was completed or cancelled; both count as complete.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from odradek.base.ids import TopicPartition
from odradek.client.reassignments import Reassignment


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentState:
    """The current state of one reassignment."""

    reassignment: Reassignment
    copied_bytes: int
    total_bytes: int
    """The bytes that all new replicas together need; it grows while producers write to the partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    states: tuple[ReassignmentState, ...]
    """The reassignments that are still in progress."""
    partition_count: int
    """The number of reassignments seen since the first sample."""
    copied_bytes: int
    total_bytes: int
    bytes_per_s: float | None
    """None until there are two samples."""

    @property
    def completed_count(self) -> int:
        return self.partition_count - len(self.states)

    @property
    def seconds_left(self) -> float | None:
        """None if it is unknown or nothing is being copied."""
        if not self.states:
            return 0.0
        left_bytes = self.total_bytes - self.copied_bytes
        if left_bytes == 0 or not self.bytes_per_s:
            return 0.0 if left_bytes == 0 else None
        return left_bytes / self.bytes_per_s


def state_of(
    reassignment: Reassignment, leader: int, sizes: Mapping[int, Mapping[TopicPartition, int]]
) -> ReassignmentState:
    """Compare the new replicas with the leader's size or, if that is unknown, with the largest other replica.

    `sizes` are by broker.
    """
    adding = reassignment.adding
    on_broker = {broker: of_broker.get(reassignment.partition, 0) for broker, of_broker in sizes.items()}
    others = [on_broker.get(broker, 0) for broker in reassignment.replicas if broker not in adding]
    full_size = on_broker.get(leader) or max(others, default=0)
    return ReassignmentState(
        reassignment=reassignment,
        copied_bytes=sum(min(on_broker.get(broker, 0), full_size) for broker in adding),
        total_bytes=full_size * len(adding),
    )


class ProgressMeter:
    """Remembers earlier samples, so that completed reassignments count as fully copied."""

    def __init__(self) -> None:
        self._totals: Final[dict[TopicPartition, int]] = {}
        self._first_sample: tuple[float, int] | None = None

    def sample(self, states: Sequence[ReassignmentState], now_s: float) -> Progress:
        for state in states:
            self._totals[state.reassignment.partition] = state.total_bytes
        total_bytes = sum(self._totals.values())
        copied_bytes = total_bytes - sum(state.total_bytes - state.copied_bytes for state in states)
        rate = None
        if self._first_sample is None:
            self._first_sample = (now_s, copied_bytes)
        elif now_s > self._first_sample[0]:
            rate = max(0, copied_bytes - self._first_sample[1]) / (now_s - self._first_sample[0])
        return Progress(
            states=tuple(states),
            partition_count=len(self._totals),
            copied_bytes=copied_bytes,
            total_bytes=total_bytes,
            bytes_per_s=rate,
        )

"""How far moves have come, and when they will have arrived: from sizes that are looked at now and then.

Pure. A move that is no longer listed has arrived or was called off; either way nothing of it is left to wait for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from odradek.base.ids import TopicPartition
from odradek.client.reassignments import Reassignment


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveState:
    """One move as it is now."""

    move: Reassignment
    copied_bytes: int
    total_bytes: int
    """What all newcomers together have to have; it grows while the partition is written to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    states: tuple[MoveState, ...]
    """Of the moves that are still under way."""
    seen_count: int
    """Moves that were under way at any time since the first look."""
    copied_bytes: int
    total_bytes: int
    bytes_per_s: float | None
    """None until there were two looks."""

    @property
    def arrived_count(self) -> int:
        return self.seen_count - len(self.states)

    @property
    def seconds_left(self) -> float | None:
        """None: not known, or it does not move at all."""
        if not self.states:
            return 0.0
        left_bytes = self.total_bytes - self.copied_bytes
        if left_bytes == 0 or not self.bytes_per_s:
            return 0.0 if left_bytes == 0 else None
        return left_bytes / self.bytes_per_s


def state_of(move: Reassignment, leader: int, sizes: Mapping[int, Mapping[TopicPartition, int]]) -> MoveState:
    """`sizes`: by broker. Who has everything is the leader; where it is not known, the largest other copy will do."""
    on_broker = {broker: held.get(move.partition, 0) for broker, held in sizes.items()}
    others = [on_broker.get(broker, 0) for broker in move.replicas if broker not in move.adding]
    whole = on_broker.get(leader) or max(others, default=0)
    return MoveState(
        move=move,
        copied_bytes=sum(min(on_broker.get(broker, 0), whole) for broker in move.adding),
        total_bytes=whole * len(move.adding),
    )


class ProgressMeter:
    """Remembers what was seen: those that arrive are counted as copied in full."""

    def __init__(self) -> None:
        self._totals: Final[dict[TopicPartition, int]] = {}
        self._first_look: tuple[float, int] | None = None

    def look(self, states: Sequence[MoveState], now_s: float) -> Progress:
        under_way = {state.move.partition: state for state in states}
        for partition, state in under_way.items():
            self._totals[partition] = state.total_bytes
        total_bytes = sum(self._totals.values())
        copied_bytes = total_bytes - sum(state.total_bytes - state.copied_bytes for state in states)
        rate = None
        if self._first_look is None:
            self._first_look = (now_s, copied_bytes)
        elif now_s > self._first_look[0]:
            rate = max(0, copied_bytes - self._first_look[1]) / (now_s - self._first_look[0])
        return Progress(
            states=tuple(states),
            seen_count=len(self._totals),
            copied_bytes=copied_bytes,
            total_bytes=total_bytes,
            bytes_per_s=rate,
        )

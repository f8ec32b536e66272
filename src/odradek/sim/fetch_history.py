"""Fetch responses as brokers sent them: every byte that the simulated sockets took, and when."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from odradek.sim.log_history import LogHistory

READ_AHEAD_BYTES_MAX: Final = 400
"""Of a response: records that are read at once. The others are read while the response is sent."""


class Write(NamedTuple):
    """A part of a response that the broker wrote in one piece."""

    place: int
    start: int
    end: int


class Sent(NamedTuple):
    """A part of a response that the socket took."""

    seconds: float
    paused_until: float
    """Until when the sending process had been paused last."""


@dataclass(slots=True, kw_only=True, eq=False)
class SentResponse:
    sender: str
    receiver: str
    name: str
    """The request, for messages."""
    version: int
    requested: int
    """When the request was sent: see `Scheduler.next_place`."""
    size: int
    """As announced, with the length itself."""
    place: int
    """When its first byte was written."""
    seconds: float
    idle_seconds_max: float
    """The sender closes a connection that is idle for so long."""
    is_for_follower: bool = False
    is_read_committed: bool = False
    data: bytearray = field(default_factory=bytearray)
    writes: list[Write] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    ended: Sent | None = None
    """When the broker's end of the connection ended, or the run."""

    @property
    def is_complete(self) -> bool:
        return len(self.data) == self.size

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the broker has written and the socket has not taken."""
        return self.writes[-1].end - len(self.data)


@dataclass(slots=True)
class FetchHistory:
    logs: Mapping[str, LogHistory]
    """By the name of the computer."""
    responses: Final[list[SentResponse]] = field(default_factory=list)
    topic_names: dict[UUID, str] = field(default_factory=dict)

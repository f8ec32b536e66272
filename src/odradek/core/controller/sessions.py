"""The sessions of brokers, in the memory of the active controller only."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import starmap

NO_OFFSET = -1


@dataclass(slots=True)
class _Session:
    broker_epoch: int
    last_heartbeat_at: float
    metadata_offset: int = NO_OFFSET
    shutdown_offset: int = NO_OFFSET
    """The log end offset at the start of the broker's controlled shutdown."""


class BrokerSessions:
    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._sessions: dict[int, _Session] = {}

    def touch(self, broker_id: int, broker_epoch: int, now: float, metadata_offset: int = NO_OFFSET) -> None:
        session = self._sessions.get(broker_id)
        if session is None or session.broker_epoch != broker_epoch:
            session = self._sessions[broker_id] = _Session(broker_epoch, now)
        session.last_heartbeat_at = now
        session.metadata_offset = max(session.metadata_offset, metadata_offset)

    def forget(self, broker_id: int) -> None:
        self._sessions.pop(broker_id, None)

    def is_alive(self, broker_id: int, broker_epoch: int, now: float) -> bool:
        ends_at = self.ends_at(broker_id, broker_epoch)
        return ends_at is not None and now <= ends_at

    def ends_at(self, broker_id: int, broker_epoch: int) -> float | None:
        """When the session expires without another heartbeat. None: this registration has no session."""
        session = self._of(broker_id, broker_epoch)
        return None if session is None else session.last_heartbeat_at + self._timeout_s

    def has_heartbeat_since(self, broker_id: int, broker_epoch: int, moment: float) -> bool:
        session = self._of(broker_id, broker_epoch)
        return session is not None and session.last_heartbeat_at > moment

    def begin_shutdown(self, broker_id: int, log_end_offset: int) -> None:
        session = self._sessions.get(broker_id)
        if session is not None and session.shutdown_offset == NO_OFFSET:
            session.shutdown_offset = log_end_offset

    def have_applied_shutdown(self, broker_id: int, others: Iterable[tuple[int, int]]) -> bool:
        """Whether these brokers, by ID and epoch, have applied the start of this broker's controlled shutdown."""
        leaving = self._sessions.get(broker_id)
        if leaving is None:
            return True
        offsets = (NO_OFFSET if session is None else session.metadata_offset for session in starmap(self._of, others))
        return all(offset >= leaving.shutdown_offset for offset in offsets)

    def _of(self, broker_id: int, broker_epoch: int) -> _Session | None:
        session = self._sessions.get(broker_id)
        return session if session is not None and session.broker_epoch == broker_epoch else None

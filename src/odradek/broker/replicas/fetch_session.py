"""A follower's side of an incremental fetch session (KIP-227): what the leader knows, and what the next Fetch sends."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from odradek.core.replication.follower import FetchPosition

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
_EPOCH_MAX: Final = (1 << 31) - 1


class PartitionId(NamedTuple):
    topic_id: UUID
    partition: int


class SessionRequest(NamedTuple):
    """The session fields and partitions of one Fetch request."""

    session_id: int
    session_epoch: int
    changed: dict[PartitionId, FetchPosition]
    forgotten: list[PartitionId]


class FollowerSession:
    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._known: dict[PartitionId, FetchPosition] = {}
        """The positions the leader knows, including those of the request in flight."""

    def next(self, wanted: Mapping[PartitionId, FetchPosition], touched: Iterable[PartitionId]) -> SessionRequest:
        """The next Fetch of exactly these positions. Only `touched` partitions may have changed since the last one."""
        if self._id == NO_SESSION:
            self._known = dict(wanted)
            return SessionRequest(self._id, self._epoch, dict(wanted), [])
        changed, forgotten = {}, []
        for key in touched:
            position, known = wanted.get(key), self._known.get(key)
            if position is None:
                if known is not None:
                    del self._known[key]
                    forgotten.append(key)
            elif position != known:
                self._known[key] = changed[key] = position
        return SessionRequest(self._id, self._epoch, changed, forgotten)

    def on_response(self, session_id: int) -> None:
        """Session ID 0: the leader keeps no session, and every Fetch has to name all partitions."""
        if session_id == NO_SESSION:
            self.reset()
            return
        self._id = session_id
        self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def reset(self) -> None:
        """After a failed Fetch or a session error: the next Fetch starts a new session."""
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._known = {}

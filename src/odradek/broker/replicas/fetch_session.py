"""A follower's side of an incremental fetch session (KIP-227): what the leader knows, and what the next Fetch sends."""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final, NamedTuple
from uuid import UUID

from odradek.core.replication.follower import FetchPosition

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
_EPOCH_MAX: Final = (1 << 31) - 1
# Partitions that one Fetch adds to the session. The leader reads them all before it serves other connections.
ADDED_PARTITIONS_MAX: Final = 500


class PartitionId(NamedTuple):
    """A topic that was deleted and created again has another ID: the session forgets the old partition."""

    topic_id: UUID
    partition: int


class SessionRequest(NamedTuple):
    """The session fields and partitions of one Fetch request."""

    session_id: int
    session_epoch: int
    changed: dict[PartitionId, FetchPosition]
    forgotten: list[PartitionId]
    has_more: bool
    """Whether there are partitions that only the next Fetch adds."""


class FollowerSession:
    def __init__(self, added_max: int = ADDED_PARTITIONS_MAX) -> None:
        self._added_max: Final = added_max
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        """FIRST_EPOCH: the next Fetch starts a session and closes the one with `_id`."""
        self._has_sessions = True
        """Whether the leader keeps sessions. Otherwise every Fetch has to name all partitions."""
        self._known: dict[PartitionId, FetchPosition] = {}
        """The positions the leader knows, including those of the request in flight."""
        self._unknown: dict[PartitionId, None] = {}
        """Partitions that are not yet in the session, in the order in which they are added."""

    def next(self, wanted: Mapping[PartitionId, FetchPosition], touched: Iterable[PartitionId]) -> SessionRequest:
        """The next Fetch of these positions. Only `touched` partitions may have changed since the last one.

        It updates all partitions of the session and adds a limited number of others.
        """
        changed: dict[PartitionId, FetchPosition] = {}
        forgotten: list[PartitionId] = []
        if self._epoch == FIRST_EPOCH:
            self._known = {}
            self._unknown = dict.fromkeys(wanted)
        else:
            self._compare(wanted, touched, changed, forgotten)
        added = list(islice(self._unknown, self._added_max if self._has_sessions else None))
        for key in added:
            del self._unknown[key]
            self._known[key] = changed[key] = wanted[key]
        return SessionRequest(self._id, self._epoch, changed, forgotten, bool(self._unknown))

    def _compare(
        self,
        wanted: Mapping[PartitionId, FetchPosition],
        touched: Iterable[PartitionId],
        changed: dict[PartitionId, FetchPosition],
        forgotten: list[PartitionId],
    ) -> None:
        for key in touched:
            position, known = wanted.get(key), self._known.get(key)
            if position is None:
                self._unknown.pop(key, None)
                if known is not None:
                    del self._known[key]
                    forgotten.append(key)
            elif known is None:
                self._unknown[key] = None
            elif position != known:
                self._known[key] = changed[key] = position

    def on_response(self, session_id: int) -> None:
        """Session ID 0: the leader has started no session, or has closed it."""
        if session_id == NO_SESSION:
            self._has_sessions = self._epoch != FIRST_EPOCH
            self._id, self._epoch = NO_SESSION, FIRST_EPOCH
        else:
            self._has_sessions = True
            self._id = session_id
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def on_session_not_found(self) -> None:
        """The leader does not know the session: the next Fetch starts a new one."""
        self._id = NO_SESSION
        self.restart()

    def restart(self) -> None:
        """After a failed Fetch or another session error: the next Fetch closes the session and starts a new one."""
        self._epoch = FIRST_EPOCH
        self._has_sessions = True

"""A follower's side of a fetch session (KIP-227): what its leader remembers, and what has to be said anew."""

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


class Wanted(NamedTuple):
    """What one Fetch has to name."""

    session_id: int
    session_epoch: int
    changed: dict[PartitionId, FetchPosition]
    forgotten: list[PartitionId]


class FollowerSession:
    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._known: dict[PartitionId, FetchPosition] = {}
        """What the leader has been told, the request on its way included."""

    def next(self, wanted: Mapping[PartitionId, FetchPosition], touched: Iterable[PartitionId]) -> Wanted:
        """For a Fetch of exactly these. The others are wanted, or not, as they were the last time."""
        if self._id == NO_SESSION:
            self._known = dict(wanted)
            return Wanted(self._id, self._epoch, dict(wanted), [])
        changed, forgotten = {}, []
        for key in touched:
            position, known = wanted.get(key), self._known.get(key)
            if position is None:
                if known is not None:
                    del self._known[key]
                    forgotten.append(key)
            elif position != known:
                self._known[key] = changed[key] = position
        return Wanted(self._id, self._epoch, changed, forgotten)

    def answered(self, session_id: int) -> None:
        """0: the leader keeps none, and everything has to be said every time."""
        if session_id == NO_SESSION:
            self.reset()
            return
        self._id = session_id
        self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def reset(self) -> None:
        """After a failure, or an error of the session: the next Fetch begins a new one."""
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._known = {}

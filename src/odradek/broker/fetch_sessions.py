"""Incremental fetch sessions (KIP-227): an incremental Fetch names only the partitions that changed.

A session keeps its partitions in order, with the offsets of the last response; an incremental response contains only
partitions with records, errors or changed offsets. The cache has a fixed number of slots.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Clock, Random
from odradek.storage.partition.partition import Partition

INVALID_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
# A session that was used within this time is not evicted for a new one.
EVICTION_MS: Final = 120_000


class PartitionKey(NamedTuple):
    """A partition as the client named it: by topic ID since version 13, before that by topic name."""

    topic_id: UUID
    topic: str
    partition: int


@dataclass(slots=True)
class FetchTarget:
    """One partition of a Fetch, and what the last response contained."""

    key: PartitionKey
    fetch_offset: int
    max_bytes: int
    leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int
    # The topic name, as requested or resolved from its ID.
    topic: str = ""
    sent_high_watermark: int = -1
    sent_log_start_offset: int = -1
    caught_up: Partition | None = None
    """Set if a follower had reached the end of this partition: until the partition changes there is nothing to read."""

    def update(self, newer: "FetchTarget") -> None:
        self.fetch_offset = newer.fetch_offset
        self.max_bytes = newer.max_bytes
        self.leader_epoch = newer.leader_epoch
        self.last_fetched_epoch = newer.last_fetched_epoch
        self.log_start_offset = newer.log_start_offset
        self.caught_up = None


@dataclass(slots=True, eq=False)
class FetchSession:
    id: int
    uses_topic_ids: bool
    privileged: bool
    created_ms: float
    last_used_ms: float
    epoch: int = 1
    targets: dict[PartitionKey, FetchTarget] = field(default_factory=dict)

    def update(self, wanted: Iterable[FetchTarget], forgotten: Iterable[PartitionKey]) -> None:
        for target in wanted:
            known = self.targets.get(target.key)
            if known is None:
                self.targets[target.key] = target
            else:
                known.update(target)
        for key in forgotten:
            self.targets.pop(key, None)

    def rotate(self, returned: Iterable[PartitionKey]) -> None:
        """Moves partitions with records to the end, so that the byte limit does not starve the others."""
        for key in returned:
            target = self.targets.pop(key, None)
            if target is not None:
                self.targets[key] = target


class FetchContext:
    """The partitions of one Fetch: full or incremental, with or without a session."""

    denied: Sequence[FetchTarget] = ()
    """Those that the client may not read. They stay in the session, and are checked again with the next Fetch."""

    def __init__(
        self,
        session: FetchSession | None,
        targets: list[FetchTarget],
        *,
        incremental: bool,
        uses_topic_ids: bool,
    ) -> None:
        self.session = session
        self.session_id = INVALID_SESSION_ID if session is None else session.id
        self.targets = targets
        self.incremental = incremental
        self.uses_topic_ids = uses_topic_ids


class FetchSessions:
    def __init__(self, slots: int, clock: Clock, random: Random) -> None:
        self._slots: Final = slots
        self._clock: Final = clock
        self._random: Final = random
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(self._sessions.values())

    def open(
        self,
        session_id: int,
        session_epoch: int,
        wanted: list[FetchTarget],
        forgotten: list[PartitionKey],
        *,
        uses_topic_ids: bool,
        privileged: bool,
    ) -> FetchContext:
        """Raises KafkaError if the session does not exist or its epoch differs."""
        if session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._sessions.pop(session_id, None)
            session = None
            if session_epoch == INITIAL_EPOCH:
                session = self._create(wanted, uses_topic_ids, privileged)
            return FetchContext(session, wanted, incremental=False, uses_topic_ids=uses_topic_ids)
        return self._continue(session_id, session_epoch, wanted, forgotten, uses_topic_ids)

    def remove(self, session: FetchSession) -> None:
        self._sessions.pop(session.id, None)

    def _continue(
        self,
        session_id: int,
        session_epoch: int,
        wanted: list[FetchTarget],
        forgotten: list[PartitionKey],
        uses_topic_ids: bool,
    ) -> FetchContext:
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.fetch_session_id_not_found)
        if session.epoch != session_epoch:
            raise KafkaError(ErrorCode.invalid_fetch_session_epoch)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.fetch_session_topic_id_error)
        session.update(wanted, forgotten)
        session.last_used_ms = self._now_ms()
        if not session.targets:
            del self._sessions[session_id]
            return FetchContext(None, [], incremental=False, uses_topic_ids=uses_topic_ids)
        session.epoch = session.epoch % (2**31 - 1) + 1
        return FetchContext(session, list(session.targets.values()), incremental=True, uses_topic_ids=uses_topic_ids)

    def _create(self, wanted: list[FetchTarget], uses_topic_ids: bool, privileged: bool) -> FetchSession | None:
        now_ms = self._now_ms()
        if len(self._sessions) >= self._slots and not self._evict_one(len(wanted), privileged, now_ms):
            return None
        session = FetchSession(self._new_id(), uses_topic_ids, privileged, now_ms, now_ms)
        session.targets = {target.key: target for target in wanted}
        self._sessions[session.id] = session
        return session

    def _evict_one(self, size: int, privileged: bool, now_ms: float) -> bool:
        oldest = min(self._sessions.values(), key=lambda session: session.last_used_ms, default=None)
        if oldest is None:
            return False
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            del self._sessions[oldest.id]
            return True
        # Followers evict clients, and larger sessions evict smaller ones that have existed for EVICTION_MS.
        for session in sorted(self._sessions.values(), key=lambda s: (s.privileged, len(s.targets))):
            weaker = (session.privileged, len(session.targets)) < (privileged, size)
            if weaker and (now_ms - session.created_ms > EVICTION_MS or (privileged and not session.privileged)):
                del self._sessions[session.id]
                return True
        return False

    def _new_id(self) -> int:
        while True:
            candidate = self._random.randrange(2**31 - 1) + 1
            if candidate not in self._sessions:
                return candidate

    def _now_ms(self) -> float:
        return self._clock.monotonic() * 1000

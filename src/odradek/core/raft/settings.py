"""Who a replica is, and the times it keeps. Named after Kafka's `controller.quorum.*`, with its defaults."""

from dataclasses import dataclass
from uuid import UUID

from odradek.records.control import KRaftVersionRange, VoterEndpoint

FETCH_MAX_WAIT_MS = 500
"""For which a leader may keep a fetcher that it has nothing to tell, as Kafka's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    node_id: int
    directory_id: UUID
    cluster_id: str
    endpoints: tuple[VoterEndpoint, ...]
    """Where this node is reached as a voter. The first listener is the one that voters use among themselves."""
    kraft_versions: KRaftVersionRange
    can_become_voter: bool = True
    """A controller may be added to the voters; a broker only observes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftSettings:
    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = FETCH_MAX_WAIT_MS
    fetch_max_bytes: int = 8 << 20
    fetch_snapshot_max_bytes: int = 8 << 20
    auto_join: bool = False
    bootstrap_ids: tuple[int, ...] = ()
    """Whom to ask for the leader besides the voters; negative where only an address is known."""
    fast_detection: bool = True
    """A leader whose port refuses connections is taken for dead at once, if a majority finds it so. Off: as Kafka."""

    @property
    def check_quorum_timeout_ms(self) -> int:
        """Longer than a follower's patience, so that a leader does not give up before its followers do."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def discovery_timeout_ms(self) -> int:
        """For an answer of somebody who may know the leader: several can be asked within a follower's patience."""
        return self.fetch_timeout_ms // 8

    @property
    def begin_epoch_interval_ms(self) -> int:
        return self.fetch_timeout_ms // 2

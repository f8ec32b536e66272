"""A replica's identity and timeouts. The timeouts have the names and defaults of Kafka's `controller.quorum.*`."""

from dataclasses import dataclass
from uuid import UUID

from odradek.records.control import KRaftVersionRange, VoterEndpoint

FETCH_MAX_WAIT_MS = 500
"""How long a leader may delay a Fetch without new data, as in Kafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    node_id: int
    directory_id: UUID
    cluster_id: str
    endpoints: tuple[VoterEndpoint, ...]
    """The endpoints of this node as a voter. Voters use the first listener among themselves."""
    kraft_versions: KRaftVersionRange
    can_become_voter: bool = True
    """True for a controller; a broker is always an observer."""


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
    """Nodes to query for the leader besides the voters; negative if only the address is known."""
    fast_detection: bool = True
    """Whether a leader is replaced at once when its port refuses the connections of a majority. Off: as in Kafka."""

    @property
    def check_quorum_timeout_ms(self) -> int:
        """Longer than the fetch timeout, so that a leader does not resign before its followers time out."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def discovery_timeout_ms(self) -> int:
        """For a query for the leader: several nodes can be queried within the fetch timeout."""
        return self.fetch_timeout_ms // 8

    @property
    def begin_epoch_interval_ms(self) -> int:
        return self.fetch_timeout_ms // 2

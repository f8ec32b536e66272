"""The messages between replicas: the parts of Kafka's RPCs that are about `__cluster_metadata`.

Plain values; `quorum/wire` translates them from and to the wire format. As in Kafka, -1 means "none".
"""

from odradek.base.errors import ErrorCode
from odradek.base.values import named_value
from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft.batch import Batch, OffsetAndEpoch
from odradek.core.raft.voter_set import ReplicaKey
from odradek.records.control import KRaftVersionRange, VoterEndpoint

NO_NODE = -1
UNKNOWN_OFFSET = -1
ANY_HIGH_WATERMARK = (1 << 63) - 1
"""The high watermark of a fetcher that does not want a response for a new high watermark alone."""


@named_value
class LeaderNaming:
    """Base of the responses that contain the leader and epoch of the responding replica."""

    error: ErrorCode = ErrorCode.none
    leader_id: int = NO_NODE
    leader_epoch: int = -1
    """-1 in errors that do not depend on the quorum."""
    leader_endpoints: tuple[VoterEndpoint, ...] = ()


# Elections


@named_value
class VoteRequest:
    cluster_id: str | None
    voter: ReplicaKey
    """The intended voter: the same node with another directory rejects the request."""
    replica: ReplicaKey
    replica_epoch: int
    last_offset: int
    """The synced log end of the candidate."""
    last_offset_epoch: int
    pre_vote: bool
    """Whether the voter would grant its vote; it does not use up the vote."""


@named_value
class VoteResponse(LeaderNaming):
    vote_granted: bool = False


@named_value
class BeginQuorumEpochRequest:
    cluster_id: str | None
    voter: ReplicaKey
    leader_id: int
    leader_epoch: int
    leader_endpoints: tuple[VoterEndpoint, ...]


@named_value
class BeginQuorumEpochResponse(LeaderNaming):
    pass


@named_value
class EndQuorumEpochRequest:
    cluster_id: str | None
    leader_id: int
    leader_epoch: int
    preferred_candidates: tuple[ReplicaKey, ...]
    """Best candidate first."""
    leader_endpoints: tuple[VoterEndpoint, ...]


@named_value
class EndQuorumEpochResponse(LeaderNaming):
    pass


# Replication


@named_value
class FetchRequest:
    cluster_id: str | None
    replica: ReplicaKey
    current_leader_epoch: int
    fetch_offset: int
    """Everything before it is synced on the fetcher's disk: the request acknowledges it."""
    last_fetched_epoch: int
    high_watermark: int
    max_bytes: int
    max_wait_ms: int


@named_value
class FetchResponse(LeaderNaming):
    high_watermark: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    diverging_epoch: OffsetAndEpoch | None = None
    snapshot_id: SnapshotId | None = None
    batches: tuple[Batch, ...] = ()


@named_value
class FetchSnapshotRequest:
    cluster_id: str | None
    replica: ReplicaKey
    current_leader_epoch: int
    snapshot_id: SnapshotId
    position: int
    max_bytes: int


@named_value
class FetchSnapshotResponse(LeaderNaming):
    snapshot_id: SnapshotId | None = None
    size_bytes: int = 0
    position: int = 0
    data: bytes = b""


# The voters


@named_value
class AddRaftVoterRequest:
    cluster_id: str | None
    voter: ReplicaKey
    endpoints: tuple[VoterEndpoint, ...]
    ack_when_committed: bool = True


@named_value
class AddRaftVoterResponse:
    error: ErrorCode = ErrorCode.none
    error_message: str | None = None


@named_value
class RemoveRaftVoterRequest:
    cluster_id: str | None
    voter: ReplicaKey


@named_value
class RemoveRaftVoterResponse:
    error: ErrorCode = ErrorCode.none
    error_message: str | None = None


@named_value
class UpdateRaftVoterRequest:
    cluster_id: str | None
    current_leader_epoch: int
    voter: ReplicaKey
    endpoints: tuple[VoterEndpoint, ...]
    kraft_versions: KRaftVersionRange


@named_value
class UpdateRaftVoterResponse(LeaderNaming):
    pass


@named_value
class ApiVersionsRequest:
    """Queries the kraft.versions that a new voter supports."""


@named_value
class ApiVersionsResponse:
    error: ErrorCode = ErrorCode.none
    kraft_versions: KRaftVersionRange | None = None


# Description


@named_value
class DescribeQuorumRequest:
    pass


@named_value
class ReplicaStatus:
    replica: ReplicaKey
    log_end_offset: int
    last_fetch_ms: int
    """In the state machine's time; -1: never."""
    last_caught_up_ms: int


@named_value
class DescribeQuorumResponse:
    error: ErrorCode = ErrorCode.none
    leader_id: int = NO_NODE
    leader_epoch: int = -1
    high_watermark: int = UNKNOWN_OFFSET
    voters: tuple[ReplicaStatus, ...] = ()
    observers: tuple[ReplicaStatus, ...] = ()
    endpoints: tuple[tuple[int, tuple[VoterEndpoint, ...]], ...] = ()
    """The voters' endpoints, by ID."""


Request = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | AddRaftVoterRequest
    | RemoveRaftVoterRequest
    | UpdateRaftVoterRequest
    | ApiVersionsRequest
    | DescribeQuorumRequest
)
Response = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | AddRaftVoterResponse
    | RemoveRaftVoterResponse
    | UpdateRaftVoterResponse
    | ApiVersionsResponse
    | DescribeQuorumResponse
)

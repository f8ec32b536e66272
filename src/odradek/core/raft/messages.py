"""What replicas say to each other: Kafka's RPCs on `__cluster_metadata`, one partition's part of each.

Plain values; the host translates them from and to the wire. Where Kafka writes -1 for "none", so do these.
"""

from odradek.base.errors import ErrorCode
from odradek.base.values import named_value
from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft.batch import Batch, OffsetAndEpoch
from odradek.core.raft.voter_set import ReplicaKey
from odradek.records.control import KRaftVersionRange, VoterEndpoint

NOBODY = -1
UNKNOWN_OFFSET = -1
ANY_HIGH_WATERMARK = (1 << 63) - 1
"""What a fetcher says that does not want to be told of a new high watermark alone."""


@named_value
class LeaderNaming:
    """Base of the responses that tell which leader and epoch the answering replica knows."""

    error: ErrorCode = ErrorCode.none
    leader_id: int = NOBODY
    leader_epoch: int = -1
    """-1 in refusals that come before anything of the quorum was looked at."""
    leader_endpoints: tuple[VoterEndpoint, ...] = ()


# Elections


@named_value
class VoteRequest:
    cluster_id: str | None
    voter: ReplicaKey
    """Whom the request is meant for: not the same node with another disk."""
    replica: ReplicaKey
    replica_epoch: int
    last_offset: int
    """Where the asking replica's log ends, as far as it is synced."""
    last_offset_epoch: int
    pre_vote: bool
    """Only asks whether a vote would be granted; nobody is bound by the answer."""


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
    """The best first."""
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
    """Everything before it is synced on the fetcher's disk: the request is its acknowledgement."""
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
    """Asks a new voter which kraft.versions it knows."""


@named_value
class ApiVersionsResponse:
    error: ErrorCode = ErrorCode.none
    kraft_versions: KRaftVersionRange | None = None


# Looking at the quorum


@named_value
class DescribeQuorumRequest:
    pass


@named_value
class ReplicaStatus:
    replica: ReplicaKey
    log_end_offset: int
    last_fetch_ms: int
    """In the machine's own time; -1: never."""
    last_caught_up_ms: int


@named_value
class DescribeQuorumResponse:
    error: ErrorCode = ErrorCode.none
    leader_id: int = NOBODY
    leader_epoch: int = -1
    high_watermark: int = UNKNOWN_OFFSET
    voters: tuple[ReplicaStatus, ...] = ()
    observers: tuple[ReplicaStatus, ...] = ()
    endpoints: tuple[tuple[int, tuple[VoterEndpoint, ...]], ...] = ()
    """Of the voters, by id."""


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

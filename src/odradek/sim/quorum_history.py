"""Messages between the nodes of a quorum, and the contents of their disks at that time: the input of the checkers.

Times are virtual seconds. "Durable" is what a loss of power at that moment would have left, at least.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from odradek.core.metadata.records import MetadataRecord

NO_NODE: Final = -1


# ---- disks


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """The `quorum-state` file of a node at a time."""

    node: str
    seconds: float
    epoch: int
    leader_id: int
    voted_id: int


class LogEnd(NamedTuple):
    """Ordered as in elections: by the last epoch, then by the end offset."""

    epoch: int
    offset: int


class LogBatch(NamedTuple):
    """Of a metadata log. Two batches with the same digest have the same bytes."""

    base_offset: int
    last_offset: int
    epoch: int
    digest: int
    leader_id: int | None = None
    """The leader whose epoch starts with this batch."""
    voter_ids: frozenset[int] | None = None
    """The voter set from this batch on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataCopy:
    """The metadata log as it was on a node's disk, and its snapshots' digests by end offset and epoch."""

    node: str
    seconds: float
    batches: tuple[LogBatch, ...]
    snapshots: Mapping[tuple[int, int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSeen:
    """The durable end of a node's log when it sent a message."""

    node: str
    seconds: float
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A fault removed or corrupted part of a node's log."""

    node: str
    seconds: float


# ---- elections


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidacy:
    """A Vote request, possibly a pre-vote."""

    candidate: str
    candidate_id: int
    epoch: int
    seconds: float
    is_pre_vote: bool
    claimed_end: LogEnd
    durable: QuorumState | None
    durable_end: LogEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """A Vote response that grants the vote or pre-vote."""

    voter: str
    voter_id: int
    candidate_id: int
    epoch: int
    voter_epoch: int
    """The voter's epoch at that time."""
    seconds: float
    is_pre_vote: bool
    claimed_end: LogEnd
    """Of the candidate's log."""
    durable_end: LogEnd
    """Of the voter's."""
    durable: QuorumState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochReported:
    """A node reported an epoch, and possibly its leader, to another node."""

    node: str
    epoch: int
    leader_id: int
    durable_epoch: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAccepted:
    """A node accepted a leader's request although it was in another epoch."""

    node: str
    epoch: int
    own_epoch: int
    what: str
    seconds: float


# ---- replication


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """A voter's Fetch of the metadata log, which acknowledges all records before the fetch offset."""

    voter: str
    epoch: int
    offset: int
    durable_epoch: int
    durable_end_offset: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkSent:
    """A leader sent its high watermark; with the contents of every voter's disk at that offset."""

    leader: str
    listener: str
    """Responses to different nodes may be sent in another order than they were created."""
    epoch: int
    offset: int
    seconds: float
    voters: frozenset[str]
    """The voter set in the leader's log."""
    former_voters: frozenset[str]
    """The previous voter set, which may have been used for counting."""
    holders: Mapping[str, LogBatch]
    """The batch that ends there, on the disks that had it."""
    covering: frozenset[str]
    """Nodes whose snapshot covers the offset."""
    snapshot_end: int
    """Where the leader's own newest snapshot ends."""
    is_snapshot_held: bool
    """Whether the logs of a majority reach to there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderLog:
    """A leader's log when it sent its first high watermark of the epoch."""

    leader: str
    epoch: int
    seconds: float
    start_offset: int
    batches: tuple[LogBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """A node wrote a batch to its metadata log; the first node to write it is the leader of its epoch."""

    node: str
    batch: LogBatch
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterServed:
    """A leader served a voter's Fetch."""

    leader: str
    epoch: int
    voter: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAnnounced:
    """A BeginQuorumEpoch request of a leader."""

    leader: str
    epoch: int
    seconds: float


# ---- what is committed


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerChange:
    """A broker record: registered, fenced or unfenced."""

    broker_id: int
    broker_epoch: int
    incarnation: str = ""
    """Of a registration."""
    is_fenced: bool | None = None
    """None: as before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """The state of a topic after a batch; None: unknown."""

    topic: str
    partitions: int | None
    """None: it does not exist."""
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedBatch:
    """A committed batch; each offset is recorded once, in order."""

    batch: LogBatch
    leader: str
    """The node that wrote it first."""
    appended_seconds: float
    seen_seconds: float
    """When a leader first reported it as committed."""
    committed_in: int
    """The epoch of that leader."""
    brokers: tuple[BrokerChange, ...] = ()
    topics: tuple[TopicState, ...] = ()
    security: tuple[MetadataRecord, ...] = ()
    """Its records about ACLs, credentials, tokens and quotas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationSent:
    """A BrokerRegistration request, accepted or not."""

    host: str
    broker_id: int
    incarnation: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A heartbeat that the controller accepted."""

    broker_id: int
    broker_epoch: int
    controller: str
    sent_seconds: float
    responded_seconds: float
    wants_to_leave: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatSent:
    """A heartbeat without a response: it may have arrived or not."""

    broker_id: int
    broker_epoch: int
    controller: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownRequested:
    """A heartbeat that requests a controlled shutdown, with or without a response."""

    broker_id: int
    broker_epoch: int
    seconds: float


# ---- the world around


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """A fault of one computer (both names are equal), or of the link between two."""

    one: str
    other: str
    began: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCrash:
    """All processes of a host were killed at once; no other fault overlaps with it."""

    nodes: tuple[str, ...]
    seconds: float
    restarted_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """A port of a node started or stopped to accept connections."""

    node: str
    port: int
    seconds: float
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSettings:
    """The configuration that rules depend on."""

    node_ids: Mapping[str, int]
    voters: frozenset[str]
    """The initial voters."""
    broker_ports: Mapping[str, int]
    """The port of each broker's listener."""
    fetch_timeout_seconds: float
    election_timeout_seconds: float
    session_seconds: float
    grace_seconds: float
    idle_seconds: float
    """After which an idle leader writes a no-op record."""


@dataclass(slots=True)
class QuorumHistory:
    states: Final[list[QuorumState]] = field(default_factory=list)
    copies: Final[list[MetadataCopy]] = field(default_factory=list)
    disks: Final[list[DiskSeen]] = field(default_factory=list)
    damages: Final[list[Damage]] = field(default_factory=list)
    candidacies: Final[list[Candidacy]] = field(default_factory=list)
    votes: Final[list[Vote]] = field(default_factory=list)
    epochs: Final[list[EpochReported]] = field(default_factory=list)
    accepted: Final[list[ClaimAccepted]] = field(default_factory=list)
    acknowledgements: Final[list[Acknowledgement]] = field(default_factory=list)
    high_watermarks: Final[list[HighWatermarkSent]] = field(default_factory=list)
    leader_logs: Final[list[LeaderLog]] = field(default_factory=list)
    appended: Final[list[Appended]] = field(default_factory=list)
    served: Final[list[VoterServed]] = field(default_factory=list)
    announcements: Final[list[LeaderAnnounced]] = field(default_factory=list)
    resigned: Final[list[tuple[int, float]]] = field(default_factory=list)
    """Epochs that their leader resigned from, and when."""
    committed: Final[list[CommittedBatch]] = field(default_factory=list)
    registrations: Final[list[RegistrationSent]] = field(default_factory=list)
    heartbeats: Final[list[Heartbeat]] = field(default_factory=list)
    pending_heartbeats: Final[dict[int, HeartbeatSent]] = field(default_factory=dict)
    """By the identity of the exchange; removed when the response arrives."""
    shutdown_requests: Final[list[ShutdownRequested]] = field(default_factory=list)
    disturbances: Final[list[Disturbance]] = field(default_factory=list)
    host_crashes: Final[list[HostCrash]] = field(default_factory=list)
    listening: Final[list[Listening]] = field(default_factory=list)
    has_fixed_voters: bool = True
    """Whether the voter set never changed."""
    is_complete: bool = True
    """Whether every committed batch was recorded; False if some exist only in a snapshot."""

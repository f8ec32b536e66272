"""What the nodes of a quorum told each other, and what their disks held at that moment: all that its checkers know.

Times are virtual seconds. "Durable" is what a loss of power at that moment would have left, at least.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

NO_NODE: Final = -1


# ---- disks


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """What a node's disk said of elections at a time: the file `quorum-state`."""

    node: str
    seconds: float
    epoch: int
    leader_id: int
    voted_id: int


class LogEnd(NamedTuple):
    """Ordered as elections order logs: whoever has the later epoch at its end, then the longer one."""

    epoch: int
    offset: int


class LogBatch(NamedTuple):
    """Of a metadata log. Two batches with the same digest have the same bytes."""

    base_offset: int
    last_offset: int
    epoch: int
    digest: int
    leader_id: int | None = None
    """Whose epoch begins with it."""
    voter_ids: frozenset[int] | None = None
    """Who votes from it on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataCopy:
    """The metadata log as it was on a node's disk, and its snapshots' digests by end offset and epoch."""

    node: str
    seconds: float
    batches: tuple[LogBatch, ...]
    snapshots: Mapping[tuple[int, int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSeen:
    """How far a node's log was durable when it said something."""

    node: str
    seconds: float
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Part of a node's log was taken away, or made unreadable, behind its back."""

    node: str
    seconds: float


# ---- elections


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidacy:
    """A voter asked another for its vote, or, as a pre-vote, whether it would have it."""

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
    """A voter told a candidate that it has its vote, or would have it."""

    voter: str
    voter_id: int
    candidate_id: int
    epoch: int
    voter_epoch: int
    """In which the voter was when it said so."""
    seconds: float
    is_pre_vote: bool
    claimed_end: LogEnd
    """Of the candidate's log."""
    durable_end: LogEnd
    """Of the voter's."""
    durable: QuorumState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochReported:
    """A node named an epoch, and perhaps its leader, to another."""

    node: str
    epoch: int
    leader_id: int
    durable_epoch: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAccepted:
    """A node took part in what a leader of an epoch wanted of it, being in another epoch itself."""

    node: str
    epoch: int
    own_epoch: int
    what: str
    seconds: float


# ---- replication


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """A voter asked for what comes next in the metadata log, and so said that it has everything before it."""

    voter: str
    epoch: int
    offset: int
    durable_epoch: int
    durable_end_offset: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkSent:
    """A leader said that everything below an offset is committed; and what every voter's disk held just before it."""

    leader: str
    listener: str
    """Of what others are told, one may come later and have been thought of earlier."""
    epoch: int
    offset: int
    seconds: float
    voters: frozenset[str]
    """As the leader's log had them."""
    former_voters: frozenset[str]
    """Before their last change: it may have been counted with them."""
    holders: Mapping[str, LogBatch]
    """The batch that ends there, on the disks that had it."""
    covering: frozenset[str]
    """Those whose snapshot stands for it."""
    snapshot_end: int
    """Where the leader's own newest snapshot ends."""
    is_snapshot_held: bool
    """Whether the logs of a majority reach to there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderLog:
    """A leader's log when it said for the first time in its epoch what is committed."""

    leader: str
    epoch: int
    seconds: float
    start_offset: int
    batches: tuple[LogBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """A batch was written to a node's metadata log: by the leader of its epoch, if nobody had it before."""

    node: str
    batch: LogBatch
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterServed:
    """A leader answered a voter's fetch: it follows."""

    leader: str
    epoch: int
    voter: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAnnounced:
    """A node told another that it leads an epoch."""

    leader: str
    epoch: int
    seconds: float


# ---- what is committed


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerChange:
    """A record about a broker: registered, fenced, or let in."""

    broker_id: int
    broker_epoch: int
    incarnation: str = ""
    """Of a registration."""
    is_fenced: bool | None = None
    """None: as before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """What a topic was after a batch; None for what it is not known to have."""

    topic: str
    partitions: int | None
    """None: it does not exist."""
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedBatch:
    """Part of what leaders said to be committed, in the order of the log, each offset once."""

    batch: LogBatch
    leader: str
    """Who wrote it first."""
    appended_seconds: float
    seen_seconds: float
    """When it was first said to be committed."""
    committed_in: int
    """The epoch of the leader that said so."""
    brokers: tuple[BrokerChange, ...] = ()
    topics: tuple[TopicState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A controller took a broker's heartbeat."""

    broker_id: int
    broker_epoch: int
    controller: str
    sent_seconds: float
    responded_seconds: float
    wants_to_leave: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatSent:
    """A broker sent a heartbeat that was not answered: whether it arrived is not known."""

    broker_id: int
    broker_epoch: int
    controller: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownRequested:
    """A broker asked to be let go, whether it was ever answered or not."""

    broker_id: int
    broker_epoch: int
    seconds: float


# ---- the world around


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """Something was wrong with a machine, or between two of them. Where both names are the same: with one."""

    one: str
    other: str
    began: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """A port of a node began or ceased to accept connections."""

    node: str
    port: int
    seconds: float
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSettings:
    """What the nodes were told, as far as rules depend on it."""

    node_ids: Mapping[str, int]
    voters: frozenset[str]
    """As the cluster begins."""
    broker_port: int
    """At which brokers are reached by others."""
    fetch_timeout_seconds: float
    election_timeout_seconds: float
    session_seconds: float
    grace_seconds: float
    idle_seconds: float
    """After which a leader that has nothing to write writes that."""


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
    """Epochs that their leader ended itself, and when it said so."""
    committed: Final[list[CommittedBatch]] = field(default_factory=list)
    heartbeats: Final[list[Heartbeat]] = field(default_factory=list)
    unanswered: Final[dict[int, HeartbeatSent]] = field(default_factory=dict)
    """By what tells the exchanges apart; a heartbeat leaves once it is answered."""
    shutdown_requests: Final[list[ShutdownRequested]] = field(default_factory=list)
    disturbances: Final[list[Disturbance]] = field(default_factory=list)
    listening: Final[list[Listening]] = field(default_factory=list)
    has_fixed_voters: bool = True
    """Whether nobody ever came to the voters or left them."""
    is_complete: bool = True
    """Whether every committed batch was seen; not so where only a snapshot was left of some."""

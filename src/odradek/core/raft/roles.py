"""The roles a replica can be in, what each one remembers, and every transition between them, in one table.

An observer is a replica that is not a voter: it is only ever Unattached or Follower.

A role's fields end with the role; state that outlives it is in Replica.
"""

from dataclasses import dataclass, field

from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft.ballot import Ballot
from odradek.core.raft.messages import FetchRequest
from odradek.core.raft.progress import ReplicationProgress
from odradek.core.raft.voter_set import ReplicaKey, VoterSet
from odradek.records.control import VoterEndpoint


@dataclass(slots=True, kw_only=True, eq=False)
class Unattached:
    """Knows the epoch but no leader to fetch from: it looks for one, and starts an election after a timeout."""

    epoch: int
    leader_id: int | None = None
    """A known leader whose endpoints are unknown."""
    voted: ReplicaKey | None = None
    election_deadline_ms: int | None
    """None: an observer never starts an election."""


@dataclass(slots=True, kw_only=True, eq=False)
class Prospective:
    """Requests pre-votes to find out whether it would win. It keeps its epoch, and its leader if it has one."""

    epoch: int
    leader_id: int | None
    leader_endpoints: tuple[VoterEndpoint, ...]
    voted: ReplicaKey | None
    ballot: Ballot
    election_deadline_ms: int


@dataclass(slots=True, kw_only=True, eq=False)
class Candidate:
    """Has voted for itself in a new epoch, and requests the votes of the others."""

    epoch: int
    ballot: Ballot
    election_deadline_ms: int


@dataclass(slots=True, kw_only=True, eq=False)
class PendingFetch:
    """A Fetch that waits for new data."""

    request: FetchRequest
    deadline_ms: int


@dataclass(slots=True, kw_only=True, eq=False)
class VoterChange:
    """The voter change in progress; there is at most one."""

    request_id: int | None
    """None: the response has been sent."""
    is_removal: bool
    voter: ReplicaKey
    endpoints: tuple[VoterEndpoint, ...] = ()
    ack_when_committed: bool = True
    record_offset: int | None = None
    """Offset of the Voters record. None while the leader waits for the new voter's ApiVersions response."""
    deadline_ms: int


@dataclass(slots=True, kw_only=True, eq=False)
class Leader:
    epoch: int
    epoch_start_offset: int
    """Offset of this epoch's first record. The high watermark may advance only beyond it."""
    progress: ReplicationProgress
    high_watermark: int | None = None
    """None until a record of this epoch is committed: before that, the commit point is unknown."""
    fetched_voters: set[int] = field(default_factory=set)
    """Voters that have fetched since they last were a majority."""
    check_quorum_deadline_ms: int
    begin_epoch_deadline_ms: int
    pending_fetches: dict[int, PendingFetch] = field(default_factory=dict)
    """By request ID; at most one per replica."""
    change: VoterChange | None = None
    described_voters: VoterSet | None = None
    """With kraft.version 0: the static voters with the details that they have sent, for an upgrade to version 1."""
    is_resigning: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class SnapshotDownload:
    snapshot_id: SnapshotId
    position: int = 0
    size_bytes: int | None = None
    """As in the first response."""


@dataclass(slots=True, kw_only=True, eq=False)
class Follower:
    epoch: int
    leader_id: int
    leader_endpoints: tuple[VoterEndpoint, ...]
    voted: ReplicaKey | None
    fetch_deadline_ms: int
    has_fetched: bool = False
    """Whether the leader has responded in this epoch: then this replica grants no pre-votes."""
    update_voter_deadline_ms: int
    has_described_itself: bool = False
    download: SnapshotDownload | None = None
    dead_leader_deadline_ms: int | None = None
    """When to request pre-votes because the leader's port refuses connections."""


@dataclass(slots=True, kw_only=True, eq=False)
class Resigned:
    """Was the leader of this epoch before it resigned or restarted. It cannot vote in this epoch."""

    epoch: int
    unacknowledged: set[int]
    """Voters that have not acknowledged the end of the epoch."""
    preferred_candidates: tuple[ReplicaKey, ...]
    election_deadline_ms: int


Role = Unattached | Prospective | Candidate | Leader | Follower | Resigned
RoleType = type[Unattached] | type[Prospective] | type[Candidate] | type[Leader] | type[Follower] | type[Resigned]

TRANSITIONS: dict[RoleType, dict[RoleType, str]] = {
    Unattached: {
        Unattached: "it learns of a higher epoch, or grants a vote",
        Prospective: "the election timeout has expired, or this is the only voter",
        Follower: "it finds a leader of this or a higher epoch",
    },
    Prospective: {
        Unattached: "it learns of a higher epoch, or loses the pre-vote and no leader is known",
        Prospective: "it grants a vote",
        Candidate: "a majority would vote for it",
        Follower: "it finds a leader, or loses the pre-vote and the old leader is known",
    },
    Candidate: {
        Unattached: "it learns of a higher epoch",
        Prospective: "the election timeout has expired",
        Leader: "a majority has voted for it",
        Follower: "it finds a leader of this or a higher epoch",
    },
    Leader: {
        Unattached: "it learns of a higher epoch",
        Resigned: "no majority has fetched in time, it was removed from the voters, or it is requested to resign",
        Follower: "it finds a leader of a higher epoch",
    },
    Follower: {
        Unattached: "it learns of a higher epoch",
        Prospective: "the fetch timeout has expired, or the leader has resigned or refuses connections",
        Follower: "it finds a leader of a higher epoch, or more of its endpoints",
    },
    Resigned: {
        Unattached: "it learns of a higher epoch, or the election timeout has expired",
        Prospective: "this is the only voter",
        Follower: "it finds a leader of a higher epoch",
    },
}

VOTERS_ONLY: frozenset[RoleType] = frozenset({Prospective, Candidate, Leader})
"""Not Resigned: a leader that was removed from the voters becomes Resigned first."""

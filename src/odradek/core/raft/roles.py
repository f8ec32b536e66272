"""The roles a replica can be in, what each one remembers, and every transition between them, in one table.

An observer is a replica that is not among the voters: it is only ever Unattached or Follower.

A role's fields are what is lost when it is left; what outlives it is the Replica's.
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
    """Knows the epoch, but nobody to fetch from: it looks for a leader, and will stand for election itself."""

    epoch: int
    leader_id: int | None = None
    """Known, but not where it is."""
    voted: ReplicaKey | None = None
    election_deadline_ms: int | None
    """None: an observer never stands."""


@dataclass(slots=True, kw_only=True, eq=False)
class Prospective:
    """Asks by pre-votes whether it would win. The epoch does not grow, and the leader, if there is one, is kept."""

    epoch: int
    leader_id: int | None
    leader_endpoints: tuple[VoterEndpoint, ...]
    voted: ReplicaKey | None
    ballot: Ballot
    election_deadline_ms: int


@dataclass(slots=True, kw_only=True, eq=False)
class Candidate:
    """Has voted for itself in a new epoch, and asks the others to."""

    epoch: int
    ballot: Ballot
    election_deadline_ms: int


@dataclass(slots=True, kw_only=True, eq=False)
class ParkedFetch:
    """A Fetch that found nothing new, and waits for it."""

    request: FetchRequest
    deadline_ms: int


@dataclass(slots=True, kw_only=True, eq=False)
class VoterChange:
    """The one change of the voters that is under way."""

    request_id: int | None
    """None: already answered."""
    is_removal: bool
    voter: ReplicaKey
    endpoints: tuple[VoterEndpoint, ...] = ()
    ack_when_committed: bool = True
    record_offset: int | None = None
    """Of the Voters record; None while a new voter is still asked which kraft.versions it knows."""
    deadline_ms: int


@dataclass(slots=True, kw_only=True, eq=False)
class Leader:
    epoch: int
    epoch_start_offset: int
    """Of the first record of the own epoch. Only an end of the majority beyond it may become the high watermark."""
    progress: ReplicationProgress
    high_watermark: int | None = None
    """None until a record of the own epoch is committed: before, nothing is known for sure."""
    fetched_voters: set[int] = field(default_factory=set)
    """Since the last time they were a majority."""
    check_quorum_deadline_ms: int
    begin_epoch_deadline_ms: int
    parked: dict[int, ParkedFetch] = field(default_factory=dict)
    """By request id; one per replica."""
    change: VoterChange | None = None
    described_voters: VoterSet | None = None
    """With kraft.version 0: the fixed voters as they have described themselves, for the day of the upgrade."""
    is_resigning: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class SnapshotDownload:
    snapshot_id: SnapshotId
    position: int = 0
    size_bytes: int | None = None
    """As the first piece told it."""


@dataclass(slots=True, kw_only=True, eq=False)
class Follower:
    epoch: int
    leader_id: int
    leader_endpoints: tuple[VoterEndpoint, ...]
    voted: ReplicaKey | None
    fetch_deadline_ms: int
    has_fetched: bool = False
    """The leader has answered in this epoch: whoever wants to depose it has to wait."""
    update_voter_deadline_ms: int
    has_described_itself: bool = False
    download: SnapshotDownload | None = None
    dead_leader_deadline_ms: int | None = None
    """When to request pre-votes because the leader's port refuses connections."""


@dataclass(slots=True, kw_only=True, eq=False)
class Resigned:
    """Was the leader of this epoch, and is so no more: after giving up, or after a restart. It cannot vote in it."""

    epoch: int
    unacknowledged: set[int]
    """Voters that have not confirmed the end of the epoch."""
    preferred_candidates: tuple[ReplicaKey, ...]
    election_deadline_ms: int


Role = Unattached | Prospective | Candidate | Leader | Follower | Resigned
RoleType = type[Unattached] | type[Prospective] | type[Candidate] | type[Leader] | type[Follower] | type[Resigned]

TRANSITIONS: dict[RoleType, dict[RoleType, str]] = {
    Unattached: {
        Unattached: "a higher epoch is heard of, or a vote is given",
        Prospective: "the election timeout has passed, or this is the only voter",
        Follower: "a leader of this or a higher epoch is found",
    },
    Prospective: {
        Unattached: "a higher epoch is heard of, or pre-votes are not enough and no leader is known",
        Prospective: "a vote is given",
        Candidate: "a majority would vote for it",
        Follower: "a leader is found, or pre-votes are not enough and the old leader is known",
    },
    Candidate: {
        Unattached: "a higher epoch is heard of",
        Prospective: "the election timeout has passed",
        Leader: "a majority has voted for it",
        Follower: "a leader of this or a higher epoch is found",
    },
    Leader: {
        Unattached: "a higher epoch is heard of",
        Resigned: "no majority has fetched in time, it is no voter any more, or it is asked to",
        Follower: "a leader of a higher epoch is found",
    },
    Follower: {
        Unattached: "a higher epoch is heard of",
        Prospective: "the fetch timeout has passed, the leader has ended its epoch, or refuses connections",
        Follower: "a leader of a higher epoch is found, or more of its endpoints",
    },
    Resigned: {
        Unattached: "a higher epoch is heard of, or the election timeout has passed",
        Prospective: "this is the only voter",
        Follower: "a leader of a higher epoch is found",
    },
}

VOTERS_ONLY: frozenset[RoleType] = frozenset({Prospective, Candidate, Leader})
"""Not Resigned: a leader that has removed itself from the voters passes through it."""

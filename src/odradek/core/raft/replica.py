"""One replica's state, and the transitions between its roles. What a replica does in each role is in other modules."""

from dataclasses import replace
from typing import TypeVar

from odradek.base.errors import ErrorCode
from odradek.base.ids import ZERO_UUID
from odradek.base.ports import Random
from odradek.core.liveness.dead_leader import RefusedNodes
from odradek.core.raft.ballot import Ballot
from odradek.core.raft.effects import (
    AbandonSnapshot,
    BecameLeader,
    Effect,
    HighWatermarkAdvanced,
    LeaderChanged,
    LeadershipLost,
    PersistQuorumState,
    Respond,
    Send,
)
from odradek.core.raft.errors import BrokenQuorum
from odradek.core.raft.messages import (
    NO_NODE,
    AddRaftVoterResponse,
    FetchResponse,
    LeaderNaming,
    RemoveRaftVoterResponse,
    Request,
    Response,
)
from odradek.core.raft.progress import ReplicationProgress
from odradek.core.raft.quorum_state import QuorumState
from odradek.core.raft.requests import Requests
from odradek.core.raft.roles import (
    TRANSITIONS,
    VOTERS_ONLY,
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
)
from odradek.core.raft.settings import Identity, RaftSettings
from odradek.core.raft.stored_state import StoredState
from odradek.core.raft.voter_set import ReplicaKey, VoterSet
from odradek.records.control import VoterEndpoint, VoterRegistration

NamingT = TypeVar("NamingT", bound=LeaderNaming)


class Replica:
    def __init__(self, identity: Identity, settings: RaftSettings, random: Random, durable: StoredState) -> None:
        self.identity = identity
        self.settings = settings
        self.random = random
        self.key = ReplicaKey(identity.node_id, identity.directory_id)
        self.log = durable.log
        self.quorum = durable.quorum
        self.requests = Requests(
            request_timeout_ms=settings.request_timeout_ms, retry_backoff_ms=settings.retry_backoff_ms
        )
        self.now_ms = 0
        newest = durable.log.latest_snapshot
        self.high_watermark = durable.log.start_offset if newest is None else newest.end_offset
        """Everything before this offset is committed. It never decreases, in any role."""
        self.has_caught_up = False
        """Whether the log once reached the high watermark of a leader, since this replica started."""
        self.is_stopping = False
        self.refused_nodes = RefusedNodes(is_enabled=settings.fast_detection, random=random)
        self.last_leader_id: int | None = None
        """The last leader other than this replica, of any epoch."""
        self.next_wake_ms: int | None = None
        self._persisted = durable.quorum_state
        self._announced = (NO_NODE, -1)
        self._effects: list[Effect] = []
        self.role: Role = Unattached(epoch=durable.quorum_state.leader_epoch, election_deadline_ms=None)

    # Views

    @property
    def epoch(self) -> int:
        return self.role.epoch

    @property
    def voters(self) -> VoterSet:
        return self.quorum.voters

    @property
    def is_voter(self) -> bool:
        return self.voters.is_voter(self.key)

    @property
    def is_eligible(self) -> bool:
        """Whether it may be elected: it is a voter, or its removal may not be committed yet. In that case it may be the
        only replica with that record, and the others could not elect a leader without it."""
        return self.is_voter or self.quorum.voters_before_change(self.high_watermark).is_voter(self.key)

    @property
    def leader_id(self) -> int | None:
        role = self.role
        if isinstance(role, Leader | Resigned):
            return self.identity.node_id
        return None if isinstance(role, Candidate) else role.leader_id

    @property
    def leader_endpoints(self) -> tuple[VoterEndpoint, ...]:
        role = self.role
        if isinstance(role, Leader | Resigned):
            return self.identity.endpoints
        return role.leader_endpoints if isinstance(role, Prospective | Follower) else ()

    @property
    def voted(self) -> ReplicaKey | None:
        role = self.role
        if isinstance(role, Candidate):
            return self.key
        return None if isinstance(role, Leader | Resigned) else role.voted

    @property
    def can_start_election(self) -> bool:
        """Not while a snapshot replaces the log: a leader's log must not be replaced."""
        return self.is_eligible and not self.is_stopping and self.log.loading is None

    @property
    def registration(self) -> VoterRegistration:
        return VoterRegistration(
            voter_id=self.identity.node_id,
            voter_directory_id=self.identity.directory_id,
            endpoints=self.identity.endpoints,
            kraft_version_feature=self.identity.kraft_versions,
        )

    # Effects

    def emit(self, effect: Effect) -> None:
        self._effects.append(effect)

    def drain_effects(self) -> tuple[Effect, ...]:
        effects = tuple(self._effects)
        self._effects.clear()
        return effects

    def respond(self, request_id: int, message: Response) -> None:
        self.emit(Respond(request_id, message))

    def with_leader(self, response: NamingT) -> NamingT:
        """Returns the response with this replica's leader and epoch."""
        leader_id = NO_NODE if self.leader_id is None else self.leader_id
        return replace(response, leader_id=leader_id, leader_epoch=self.epoch, leader_endpoints=self.leader_endpoints)

    def send_if_ready(
        self,
        destination: int,
        endpoints: tuple[VoterEndpoint, ...],
        message: Request,
        timeout_ms: int | None = None,
    ) -> bool:
        """False while a request is in flight or in backoff; the replica then wakes when that ends."""
        is_ready = self.requests.is_ready(destination, self.now_ms)
        if is_ready:
            correlation_id = self.requests.record_send(destination, self.now_ms, timeout_ms)
            self.emit(Send(destination, endpoints, correlation_id, message))
        self.wake_at(self.requests.ready_at_ms(destination, self.now_ms))
        return is_ready

    def wake_at(self, at_ms: int) -> None:
        at_ms = max(at_ms, self.now_ms + 1)
        if self.next_wake_ms is None or at_ms < self.next_wake_ms:
            self.next_wake_ms = at_ms

    def clear_wake(self) -> None:
        self.next_wake_ms = None

    def advance_high_watermark(self, offset: int) -> None:
        assert offset <= self.log.end_offset, f"high watermark {offset} is beyond the log end {self.log.end_offset}"
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.emit(HighWatermarkAdvanced(offset))

    # New roles

    def unattached_role(
        self, epoch: int, *, leader_id: int | None = None, voted: ReplicaKey | None = None
    ) -> Unattached:
        deadline_ms = self.election_deadline_ms() if self.is_eligible else None
        return Unattached(epoch=epoch, leader_id=leader_id, voted=voted, election_deadline_ms=deadline_ms)

    def candidate_role(self, epoch: int) -> Candidate:
        ballot = Ballot(self.voters, self.identity.node_id)
        return Candidate(epoch=epoch, ballot=ballot, election_deadline_ms=self.election_deadline_ms())

    def follower_role(
        self, epoch: int, leader_id: int, endpoints: tuple[VoterEndpoint, ...], voted: ReplicaKey | None
    ) -> Follower:
        return Follower(
            epoch=epoch,
            leader_id=leader_id,
            leader_endpoints=endpoints,
            voted=voted,
            fetch_deadline_ms=self.now_ms + self.settings.fetch_timeout_ms,
            update_voter_deadline_ms=self.now_ms + self.settings.fetch_timeout_ms,
        )

    def resigned_role(self, epoch: int, preferred_candidates: tuple[ReplicaKey, ...] = ()) -> Resigned:
        return Resigned(
            epoch=epoch,
            unacknowledged=set(self.voters.ids) - {self.identity.node_id},
            preferred_candidates=preferred_candidates,
            election_deadline_ms=self.election_deadline_ms(),
        )

    def begin(self, role: Role) -> None:
        """The first role after a start."""
        self.role = role
        self._persist_and_announce()

    # Transitions

    def become_unattached(self, epoch: int, *, leader_id: int | None = None, deadline_ms: int | None = None) -> None:
        """Without `deadline_ms` a running election deadline stays: other elections must not postpone it."""
        role = self.unattached_role(epoch, leader_id=leader_id, voted=self.voted if epoch == self.epoch else None)
        if deadline_ms is None:
            deadline_ms = self._running_deadline_ms()
        if deadline_ms is not None and self.is_eligible:
            role.election_deadline_ms = deadline_ms
        self._become(role)

    def become_prospective(self) -> None:
        self._become(self._prospective_role(self.voted))

    def grant_vote(self, candidate: ReplicaKey) -> None:
        """Grants this epoch's only vote, and postpones the replica's own election."""
        if self.voted is not None or not isinstance(self.role, Unattached | Prospective):
            raise BrokenQuorum(f"the vote of epoch {self.epoch} is not available for {candidate}")
        if isinstance(self.role, Prospective):
            self._become(self._prospective_role(candidate))
        else:
            self._become(self.unattached_role(self.epoch, voted=candidate))

    def _prospective_role(self, voted: ReplicaKey | None) -> Prospective:
        return Prospective(
            epoch=self.epoch,
            leader_id=self.leader_id,
            leader_endpoints=self.leader_endpoints,
            voted=voted,
            ballot=Ballot(self.voters, self.identity.node_id),
            election_deadline_ms=self.election_deadline_ms(),
        )

    def become_candidate(self) -> None:
        self._become(self.candidate_role(self.epoch + 1))

    def become_leader(self) -> Leader:
        is_fixed = self.quorum.kraft_version == 0
        leader = Leader(
            epoch=self.epoch,
            epoch_start_offset=self.log.end_offset,
            progress=ReplicationProgress(self.voters, self.key),
            check_quorum_deadline_ms=self.now_ms + self.settings.check_quorum_timeout_ms,
            begin_epoch_deadline_ms=self.now_ms,
            described_voters=self.voters.update_by_id(self.registration) if is_fixed else None,
        )
        self._become(leader)
        self.emit(BecameLeader(leader.epoch, leader.epoch_start_offset))
        return leader

    def become_follower(self, epoch: int, leader_id: int, endpoints: tuple[VoterEndpoint, ...]) -> None:
        voted = self.voted if epoch == self.epoch else None
        self._become(self.follower_role(epoch, leader_id, endpoints, voted))

    def become_resigned(self, preferred_candidates: tuple[ReplicaKey, ...]) -> None:
        self._become(self.resigned_role(self.epoch, preferred_candidates))

    def election_deadline_ms(self) -> int:
        timeout_ms = self.settings.election_timeout_ms
        return self.now_ms + timeout_ms + self.random.randrange(timeout_ms)

    def _running_deadline_ms(self) -> int | None:
        role = self.role
        if isinstance(role, Leader | Follower) or (isinstance(role, Prospective) and role.ballot.is_lost):
            return None
        return role.election_deadline_ms

    def _become(self, role: Role) -> None:
        former = self.role
        if type(role) not in TRANSITIONS[type(former)]:
            raise BrokenQuorum(f"{type(former).__name__} cannot become {type(role).__name__}")
        if type(role) in VOTERS_ONLY and not self.is_eligible:
            raise BrokenQuorum(f"an observer cannot become {type(role).__name__}")
        if role.epoch < former.epoch:
            raise BrokenQuorum(f"epoch {role.epoch} is lower than {former.epoch}")
        self.role = role
        self._persist_and_announce()
        if isinstance(former, Leader):
            self._fail_pending_requests(former)
        elif isinstance(former, Follower) and former.download is not None and self.log.loading is None:
            self.emit(AbandonSnapshot(former.download.snapshot_id))

    def _persist_and_announce(self) -> None:
        """PersistQuorumState comes first: effects after it may reveal the new role to others."""
        state = self._election_state()
        _check_succession(self._persisted, state)
        if state != self._persisted:
            self._persisted = state
            self.emit(PersistQuorumState(state, self.quorum.kraft_version, self.voters.ids))
        self.requests.clear()
        leader_id = self.leader_id
        if leader_id is not None and leader_id != self.identity.node_id:
            self.last_leader_id = leader_id
        announcement = (NO_NODE if leader_id is None else leader_id, self.epoch)
        # For others, a resigned leader is still the leader of its epoch; for its own driver it is not.
        if announcement != self._announced and not isinstance(self.role, Resigned):
            self._announced = announcement
            self.emit(LeaderChanged(*announcement))

    def _election_state(self) -> QuorumState:
        leader_id, voted = self.leader_id, self.voted
        return QuorumState(
            leader_id=NO_NODE if leader_id is None else leader_id,
            leader_epoch=self.epoch,
            voted_id=NO_NODE if voted is None else voted.node_id,
            voted_directory_id=ZERO_UUID if voted is None else voted.directory_id or ZERO_UUID,
        )

    def _fail_pending_requests(self, leader: Leader) -> None:
        """Responds to all requests that wait for a leader which has lost its leadership."""
        self.emit(LeadershipLost(leader.epoch))
        response = self.with_leader(FetchResponse(error=ErrorCode.not_leader_or_follower))
        for request_id in leader.pending_fetches:
            self.respond(request_id, response)
        change = leader.change
        if change is not None and change.request_id is not None:
            error = ErrorCode.not_leader_or_follower
            response_type = RemoveRaftVoterResponse if change.is_removal else AddRaftVoterResponse
            self.respond(change.request_id, response_type(error=error))


def _check_succession(former: QuorumState, state: QuorumState) -> None:
    assert state.leader_epoch >= former.leader_epoch, f"epoch {former.leader_epoch} became {state.leader_epoch}"
    if state.leader_epoch == former.leader_epoch:
        assert NO_NODE in (former.leader_id, state.leader_id) or former.leader_id == state.leader_id, (
            f"epoch {state.leader_epoch} has two leaders: {former.leader_id} and {state.leader_id}"
        )
        assert NO_NODE in (former.voted_id, state.voted_id) or former.voted_id == state.voted_id, (
            f"epoch {state.leader_epoch} has two votes: for {former.voted_id} and for {state.voted_id}"
        )

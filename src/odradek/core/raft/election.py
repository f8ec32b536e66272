"""Elections: pre-votes first (KIP-996), then votes. When a replica grants them, and what follows from the responses."""

from odradek.base.errors import ErrorCode
from odradek.core.raft import dead_leader, epochs, leadership
from odradek.core.raft.batch import OffsetAndEpoch
from odradek.core.raft.epochs import Verdict
from odradek.core.raft.messages import VoteRequest, VoteResponse
from odradek.core.raft.replica import Replica
from odradek.core.raft.roles import Candidate, Follower, Leader, Prospective, Unattached
from odradek.core.raft.voter_set import ReplicaKey, matches


def start_election(replica: Replica) -> None:
    """Starts with pre-votes."""
    replica.become_prospective()
    _advance(replica)


def on_vote_request(replica: Replica, request_id: int, request: VoteRequest) -> None:
    error = epochs.check_cluster_id(replica, request.cluster_id)
    if error is not None:
        replica.respond(request_id, VoteResponse(error=error))
        return
    error = _refusal(replica, request)
    if error is None and request.replica_epoch > replica.epoch:
        replica.become_unattached(request.replica_epoch)
    if error is None and not epochs.is_meant_for(replica, request.voter):
        error = ErrorCode.invalid_voter_key
    if error is not None:
        replica.respond(request_id, replica.with_leader(VoteResponse(error=error)))
        return
    is_granted = may_grant(replica, request)
    if is_granted and not request.pre_vote and replica.voted is None:
        replica.grant_vote(request.replica)
    replica.respond(request_id, replica.with_leader(VoteResponse(vote_granted=is_granted)))


def _refusal(replica: Replica, request: VoteRequest) -> ErrorCode | None:
    # A candidate is in a new epoch, which has no records yet; a prospective is still in its old epoch.
    last_epoch_max = request.replica_epoch if request.pre_vote else request.replica_epoch - 1
    if request.last_offset < 0 or not 0 <= request.last_offset_epoch <= last_epoch_max:
        return ErrorCode.invalid_request
    return epochs.check_claimant_epoch(replica, request.replica.node_id, request.replica_epoch)


def may_grant(replica: Replica, request: VoteRequest) -> bool:
    """Kafka's rules, for a request of this replica's epoch."""
    role = replica.role
    claimed = OffsetAndEpoch(request.last_offset, request.last_offset_epoch)
    is_fresh = claimed.freshness >= replica.log.end.freshness
    if request.pre_vote:
        return is_fresh and not _has_live_leader(replica)
    if isinstance(role, Unattached | Prospective):
        if role.voted is not None:
            return is_voted_for(role.voted, request.replica)
        return role.leader_id is None and is_fresh
    return False


def _has_live_leader(replica: Replica) -> bool:
    """Then it grants no pre-votes."""
    role = replica.role
    if isinstance(role, Follower):
        return role.has_fetched and not dead_leader.is_leader_dead(replica)
    return isinstance(role, Leader)


def is_voted_for(voted: ReplicaKey, candidate: ReplicaKey) -> bool:
    """A candidate may request the same vote twice, since the first response may be lost."""
    return matches(voted, candidate)


def on_vote_response(replica: Replica, source: int, response: VoteResponse) -> bool:
    """False: retry after a backoff."""
    if response.error is ErrorCode.unsupported_version and isinstance(replica.role, Prospective):
        # As in Kafka, a voter without support for pre-votes makes the replica skip them.
        replica.become_candidate()
        _advance(replica)
        return True
    verdict = epochs.check_response(replica, response)
    if verdict is not Verdict.CONTINUE:
        return verdict is Verdict.DONE
    role = replica.role
    if isinstance(role, Prospective | Candidate):
        role.ballot.record(source, response.vote_granted)
        _advance(replica)
    return True


def _advance(replica: Replica) -> None:
    """Moves on as far as the votes allow; the only voter of a quorum needs no other votes."""
    role = replica.role
    if isinstance(role, Prospective) and role.ballot.is_won:
        replica.become_candidate()
        role = replica.role
    if isinstance(role, Candidate) and role.ballot.is_won:
        leadership.begin(replica, role.ballot.granting_voters)
    elif isinstance(role, Candidate) and dead_leader.cannot_win(replica, role.ballot):
        role.election_deadline_ms = min(role.election_deadline_ms, dead_leader.retry_deadline_ms(replica))
    elif isinstance(role, Prospective) and (role.ballot.is_lost or dead_leader.cannot_win(replica, role.ballot)):
        _end_pre_vote(replica, role)


def _end_pre_vote(replica: Replica, prospective: Prospective) -> None:
    if prospective.leader_id is not None and prospective.leader_endpoints:
        dead_leader.return_to_leader(replica, prospective, prospective.leader_id)
    else:
        deadline_ms = dead_leader.retry_deadline_ms(replica) if dead_leader.is_last_leader_dead(replica) else None
        replica.become_unattached(replica.epoch, leader_id=prospective.leader_id, deadline_ms=deadline_ms)


def poll_prospective(replica: Replica, prospective: Prospective) -> None:
    if replica.now_ms >= prospective.election_deadline_ms and not replica.is_stopping:
        _end_pre_vote(replica, prospective)
        return
    if not replica.is_stopping:
        replica.wake_at(prospective.election_deadline_ms)
    _send_vote_requests(replica, prospective)


def poll_candidate(replica: Replica, candidate: Candidate) -> None:
    if replica.now_ms >= candidate.election_deadline_ms and replica.can_start_election:
        start_election(replica)
        return
    if replica.can_start_election:
        replica.wake_at(candidate.election_deadline_ms)
    if not candidate.ballot.is_lost:
        _send_vote_requests(replica, candidate)


def _send_vote_requests(replica: Replica, role: Prospective | Candidate) -> None:
    # Only synced records are claimed. A vote granted for more would outlive a crash that loses the rest, and the
    # candidate could be elected without committed records.
    claim = replica.log.synced_end
    for voter in role.ballot.unrecorded_voters:
        request = VoteRequest(
            cluster_id=replica.identity.cluster_id,
            voter=voter,
            replica=replica.key,
            replica_epoch=role.epoch,
            last_offset=claim.offset,
            last_offset_epoch=claim.epoch,
            pre_vote=isinstance(role, Prospective),
        )
        replica.send_if_ready(voter.node_id, replica.voters.endpoints(voter.node_id), request)


def choose_first_role(replica: Replica, epoch: int, leader_id: int | None, voted: ReplicaKey | None) -> None:
    """After a start: the role that follows from the persisted quorum state."""
    endpoints = replica.voters.endpoints(-1 if leader_id is None else leader_id)
    if replica.log.last_epoch > epoch:
        # The quorum-state file is missing or older than the log.
        replica.begin(dead_leader.shorten_first_election(replica, replica.unattached_role(replica.log.last_epoch)))
    elif leader_id == replica.identity.node_id:
        # It may have lost unsynced records: leading again in the same epoch, it would assign an offset twice.
        replica.begin(replica.resigned_role(epoch))
    elif leader_id is not None and endpoints:
        replica.begin(replica.follower_role(epoch, leader_id, endpoints, voted))
    elif leader_id is None and voted is not None and is_voted_for(voted, replica.key) and replica.is_eligible:
        replica.begin(replica.candidate_role(epoch))
    else:
        replica.begin(
            dead_leader.shorten_first_election(
                replica, replica.unattached_role(epoch, leader_id=leader_id, voted=voted)
            )
        )
    if replica.voters.is_only_voter(replica.key) and not isinstance(replica.role, Candidate):
        start_election(replica)
    else:
        _advance(replica)

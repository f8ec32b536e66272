"""Elections: pre-votes first (KIP-996), then votes. Who may be given one, and what follows from the answers."""

from odradek.base.errors import ErrorCode
from odradek.core.raft import dead_leader, epochs, leadership
from odradek.core.raft.batch import OffsetAndEpoch
from odradek.core.raft.epochs import Verdict
from odradek.core.raft.messages import VoteRequest, VoteResponse
from odradek.core.raft.replica import Replica
from odradek.core.raft.roles import Candidate, Follower, Leader, Prospective, Unattached
from odradek.core.raft.voter_set import ReplicaKey, matches


def stand(replica: Replica) -> None:
    """For election, if pre-votes allow it."""
    replica.become_prospective()
    _advance(replica)


def on_vote_request(replica: Replica, request_id: int, request: VoteRequest) -> None:
    error = epochs.refusal_by_cluster(replica, request.cluster_id)
    if error is not None:
        replica.respond(request_id, VoteResponse(error=error))
        return
    error = _refusal(replica, request)
    if error is None and request.replica_epoch > replica.epoch:
        replica.become_unattached(request.replica_epoch)
    if error is None and not epochs.is_meant_for(replica, request.voter):
        error = ErrorCode.invalid_voter_key
    if error is not None:
        replica.respond(request_id, replica.named(VoteResponse(error=error)))
        return
    is_granted = may_grant(replica, request)
    if is_granted and not request.pre_vote and replica.voted is None:
        replica.give_vote(request.replica)
    replica.respond(request_id, replica.named(VoteResponse(vote_granted=is_granted)))


def _refusal(replica: Replica, request: VoteRequest) -> ErrorCode | None:
    # A candidate has begun an epoch in which nothing can be written yet; a prospective is still in its old one.
    last_epoch_max = request.replica_epoch if request.pre_vote else request.replica_epoch - 1
    if request.last_offset < 0 or not 0 <= request.last_offset_epoch <= last_epoch_max:
        return ErrorCode.invalid_request
    return epochs.refusal_to_claimant(replica, request.replica.node_id, request.replica_epoch)


def may_grant(replica: Replica, request: VoteRequest) -> bool:
    """Kafka's rules; the epochs are the same by now."""
    role = replica.role
    claimed = OffsetAndEpoch(request.last_offset, request.last_offset_epoch)
    is_fresh = claimed.freshness >= replica.log.end.freshness
    if request.pre_vote:
        return is_fresh and not _is_content(replica)
    if isinstance(role, Unattached | Prospective):
        if role.voted is not None:
            return is_voted_for(role.voted, request.replica)
        return role.leader_id is None and is_fresh
    return False


def _is_content(replica: Replica) -> bool:
    """With its leader: whoever wants another one has to wait."""
    role = replica.role
    if isinstance(role, Follower):
        return role.has_fetched and not dead_leader.is_leader_dead(replica)
    return isinstance(role, Leader)


def is_voted_for(voted: ReplicaKey, candidate: ReplicaKey) -> bool:
    """The same vote can be asked for twice: the first answer may be lost."""
    return matches(voted, candidate)


def on_vote_response(replica: Replica, source: int, response: VoteResponse) -> bool:
    """False: the request is to be repeated after a pause."""
    if response.error is ErrorCode.unsupported_version and isinstance(replica.role, Prospective):
        # Somebody does not know pre-votes. Without it there may be no majority: Kafka's way is to do without them.
        replica.become_candidate()
        _advance(replica)
        return True
    verdict = epochs.judge(replica, response)
    if verdict is not Verdict.GO_ON:
        return verdict is Verdict.SETTLED
    role = replica.role
    if isinstance(role, Prospective | Candidate):
        role.ballot.record(source, response.vote_granted)
        _advance(replica)
    return True


def _advance(replica: Replica) -> None:
    """As far as the votes carry: a quorum's only voter needs no others."""
    role = replica.role
    if isinstance(role, Prospective) and role.ballot.is_won:
        replica.become_candidate()
        role = replica.role
    if isinstance(role, Candidate) and role.ballot.is_won:
        leadership.begin(replica, role.ballot.granting)
    elif isinstance(role, Candidate) and dead_leader.cannot_win(replica, role.ballot):
        role.election_deadline_ms = min(role.election_deadline_ms, dead_leader.retry_deadline_ms(replica))
    elif isinstance(role, Prospective) and (role.ballot.is_lost or dead_leader.cannot_win(replica, role.ballot)):
        _give_up(replica, role)


def _give_up(replica: Replica, prospective: Prospective) -> None:
    if prospective.leader_id is not None and prospective.leader_endpoints:
        dead_leader.return_to_leader(replica, prospective, prospective.leader_id)
    else:
        deadline_ms = dead_leader.retry_deadline_ms(replica) if dead_leader.is_last_leader_dead(replica) else None
        replica.become_unattached(replica.epoch, leader_id=prospective.leader_id, deadline_ms=deadline_ms)


def poll_prospective(replica: Replica, prospective: Prospective) -> None:
    if replica.now_ms >= prospective.election_deadline_ms and not replica.is_stopping:
        _give_up(replica, prospective)
        return
    if not replica.is_stopping:
        replica.wake_at(prospective.election_deadline_ms)
    _ask_for_votes(replica, prospective)


def poll_candidate(replica: Replica, candidate: Candidate) -> None:
    if replica.now_ms >= candidate.election_deadline_ms and replica.may_stand:
        stand(replica)
        return
    if replica.may_stand:
        replica.wake_at(candidate.election_deadline_ms)
    if not candidate.ballot.is_lost:
        _ask_for_votes(replica, candidate)


def _ask_for_votes(replica: Replica, role: Prospective | Candidate) -> None:
    # Only what is synced is claimed. A vote given for more would be kept after a crash that lost the rest, and a
    # candidate that comes back without it could be elected over committed records.
    claim = replica.log.synced_end
    for voter in role.ballot.unrecorded:
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


def first_role(replica: Replica, epoch: int, leader_id: int | None, voted: ReplicaKey | None) -> None:
    """After a start: the role of before, as far as it was durable."""
    endpoints = replica.voters.endpoints(-1 if leader_id is None else leader_id)
    if replica.log.last_epoch > epoch:
        # The file that remembers votes is older than the log, or gone.
        replica.begin(dead_leader.shorten_first_election(replica, replica.unattached_role(replica.log.last_epoch)))
    elif leader_id == replica.identity.node_id:
        # It may have lost what it had not synced: leading on in the same epoch, it would give an offset twice.
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
        stand(replica)
    else:
        _advance(replica)

"""The leader: the first record of its epoch, BeginQuorumEpoch to voters that do not fetch, and its resignation."""

from odradek.base.errors import ErrorCode
from odradek.core.raft import appending, epochs, membership, pending_fetches
from odradek.core.raft.epochs import Verdict
from odradek.core.raft.events import ResignRequested
from odradek.core.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
)
from odradek.core.raft.replica import Replica
from odradek.core.raft.roles import Candidate, Follower, Leader, Resigned
from odradek.core.raft.voter_set import ReplicaKey, matches
from odradek.records.control import ControlMessage, KRaftVersion, LeaderChangeV0, VoterById, Voters


def begin(replica: Replica, granting_ids: tuple[int, ...]) -> None:
    """Writes the epoch's first record at once: records of earlier epochs are committed only together with it."""
    candidate = replica.role
    assert isinstance(candidate, Candidate) and candidate.ballot.is_won, "only a candidate with a majority may lead"
    leader = replica.become_leader()
    messages: list[ControlMessage] = [
        LeaderChangeV0(
            leader_id=replica.identity.node_id,
            voters=tuple(VoterById(voter_id=node_id) for node_id in replica.voters.ids),
            granting_voters=tuple(VoterById(voter_id=node_id) for node_id in granting_ids),
        )
    ]
    if replica.quorum.kraft_version > 0:
        voters = replica.voters.update(replica.registration)
        is_in_log = replica.quorum.last_change_offset != -1
        if voters is not None and not (is_in_log and voters == replica.voters):
            messages += [KRaftVersion(kraft_version=replica.quorum.kraft_version), Voters(voters=voters.voters)]
    appending.append_control(replica, leader, tuple(messages))


# The leader's deadlines


def poll_leader(replica: Replica, leader: Leader) -> None:
    is_only_voter = replica.voters.is_only_voter(replica.key)
    has_lost_majority = not is_only_voter and replica.now_ms >= leader.check_quorum_deadline_ms
    if leader.is_resigning or replica.is_stopping or has_lost_majority:
        replica.become_resigned(leader.progress.successors())
        return
    if not is_only_voter:
        replica.wake_at(leader.check_quorum_deadline_ms)
    membership.expire(replica, leader)
    pending_fetches.expire(replica, leader)
    if replica.now_ms >= leader.begin_epoch_deadline_ms:
        leader.begin_epoch_deadline_ms = replica.now_ms + replica.settings.begin_epoch_interval_ms
        _notify_unresponsive_voters(replica, leader)
    replica.wake_at(leader.begin_epoch_deadline_ms)


def _notify_unresponsive_voters(replica: Replica, leader: Leader) -> None:
    interval_ms = replica.settings.begin_epoch_interval_ms
    for progress in leader.progress.voters.values():
        is_unresponsive = progress.last_fetch_ms < 0 or replica.now_ms - progress.last_fetch_ms >= interval_ms
        if is_unresponsive and progress.key.node_id != replica.identity.node_id:
            request = BeginQuorumEpochRequest(
                cluster_id=replica.identity.cluster_id,
                voter=progress.key,
                leader_id=replica.identity.node_id,
                leader_epoch=leader.epoch,
                leader_endpoints=replica.identity.endpoints,
            )
            replica.send_if_ready(progress.key.node_id, replica.voters.endpoints(progress.key.node_id), request)


def on_begin_request(replica: Replica, request_id: int, request: BeginQuorumEpochRequest) -> None:
    error = epochs.check_cluster_id(replica, request.cluster_id)
    if error is not None:
        replica.respond(request_id, BeginQuorumEpochResponse(error=error))
        return
    error = epochs.check_claimant_epoch(replica, request.leader_id, request.leader_epoch)
    if error is None:
        epochs.observe_leader(replica, request.leader_id, request.leader_epoch, request.leader_endpoints)
        if not epochs.is_meant_for(replica, request.voter):
            error = ErrorCode.invalid_voter_key
    replica.respond(request_id, replica.with_leader(BeginQuorumEpochResponse(error=error or ErrorCode.none)))


def on_begin_response(replica: Replica, source: int, response: BeginQuorumEpochResponse) -> bool:
    return epochs.check_response(replica, response) is not Verdict.RETRY_LATER


# Resignation


def on_resign_requested(replica: Replica, event: ResignRequested) -> None:
    leader = replica.role
    if isinstance(leader, Leader) and leader.epoch == event.epoch:
        leader.is_resigning = True


def poll_resigned(replica: Replica, resigned: Resigned) -> None:
    if replica.now_ms >= resigned.election_deadline_ms and not replica.is_stopping:
        # In a new epoch: in the old one, this replica is still the leader for the others.
        replica.become_unattached(replica.epoch + 1, deadline_ms=replica.now_ms)
        return
    if not replica.is_stopping:
        replica.wake_at(resigned.election_deadline_ms)
    for node_id in sorted(resigned.unacknowledged):
        request = EndQuorumEpochRequest(
            cluster_id=replica.identity.cluster_id,
            leader_id=replica.identity.node_id,
            leader_epoch=resigned.epoch,
            preferred_candidates=resigned.preferred_candidates,
            leader_endpoints=replica.identity.endpoints,
        )
        replica.send_if_ready(node_id, replica.voters.endpoints(node_id), request)


def on_end_request(replica: Replica, request_id: int, request: EndQuorumEpochRequest) -> None:
    error = epochs.check_cluster_id(replica, request.cluster_id)
    if error is not None:
        replica.respond(request_id, EndQuorumEpochResponse(error=error))
        return
    error = epochs.check_claimant_epoch(replica, request.leader_id, request.leader_epoch)
    if error is None:
        epochs.observe_leader(replica, request.leader_id, request.leader_epoch, request.leader_endpoints)
        follower = replica.role
        if isinstance(follower, Follower) and follower.leader_id == request.leader_id:
            follower.fetch_deadline_ms = replica.now_ms + _succession_delay_ms(replica, request.preferred_candidates)
            # The leader has resigned itself, so this replica may grant pre-votes at once.
            follower.has_fetched = False
    replica.respond(request_id, replica.with_leader(EndQuorumEpochResponse(error=error or ErrorCode.none)))


def _succession_delay_ms(replica: Replica, candidates: tuple[ReplicaKey, ...]) -> int:
    """0 for the best candidate, then doubled for each further one, so that they do not compete."""
    delay_max_ms = replica.settings.election_backoff_max_ms
    positions = [position for position, key in enumerate(candidates) if matches(key, replica.key)]
    position = positions[0] if positions else len(candidates)
    if position == 0:
        return 0
    if position >= len(candidates):
        return delay_max_ms
    return min(delay_max_ms, (delay_max_ms >> (len(candidates) - 1)) << (position - 1))


def on_end_response(replica: Replica, source: int, response: EndQuorumEpochResponse) -> bool:
    verdict = epochs.check_response(replica, response)
    if verdict is Verdict.CONTINUE and isinstance(replica.role, Resigned):
        replica.role.unacknowledged.discard(source)
    return verdict is not Verdict.RETRY_LATER

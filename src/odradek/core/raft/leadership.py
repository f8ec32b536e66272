"""Leading: the epoch's first record, telling the voters of it, and giving up."""

from odradek.base.errors import ErrorCode
from odradek.core.raft import appending, epochs, membership, parking
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
    """The first record of the epoch is written at once: until it is committed, nothing before it counts as such."""
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


# The leader's rounds


def poll_leader(replica: Replica, leader: Leader) -> None:
    is_alone = replica.voters.is_only_voter(replica.key)
    is_deserted = not is_alone and replica.now_ms >= leader.check_quorum_deadline_ms
    if leader.is_resigning or replica.is_stopping or is_deserted:
        replica.become_resigned(leader.progress.successors())
        return
    if not is_alone:
        replica.wake_at(leader.check_quorum_deadline_ms)
    membership.expire(replica, leader)
    parking.expire(replica, leader)
    if replica.now_ms >= leader.begin_epoch_deadline_ms:
        leader.begin_epoch_deadline_ms = replica.now_ms + replica.settings.begin_epoch_interval_ms
        _tell_silent_voters(replica, leader)
    replica.wake_at(leader.begin_epoch_deadline_ms)


def _tell_silent_voters(replica: Replica, leader: Leader) -> None:
    interval_ms = replica.settings.begin_epoch_interval_ms
    for progress in leader.progress.voters.values():
        is_silent = progress.last_fetch_ms < 0 or replica.now_ms - progress.last_fetch_ms >= interval_ms
        if is_silent and progress.key.node_id != replica.identity.node_id:
            request = BeginQuorumEpochRequest(
                cluster_id=replica.identity.cluster_id,
                voter=progress.key,
                leader_id=replica.identity.node_id,
                leader_epoch=leader.epoch,
                leader_endpoints=replica.identity.endpoints,
            )
            replica.send_if_ready(progress.key.node_id, replica.voters.endpoints(progress.key.node_id), request)


def on_begin_request(replica: Replica, request_id: int, request: BeginQuorumEpochRequest) -> None:
    error = epochs.refusal_by_cluster(replica, request.cluster_id)
    if error is not None:
        replica.respond(request_id, BeginQuorumEpochResponse(error=error))
        return
    error = epochs.refusal_to_claimant(replica, request.leader_id, request.leader_epoch)
    if error is None:
        epochs.learn(replica, request.leader_id, request.leader_epoch, request.leader_endpoints)
        if not epochs.is_meant_for(replica, request.voter):
            error = ErrorCode.invalid_voter_key
    replica.respond(request_id, replica.named(BeginQuorumEpochResponse(error=error or ErrorCode.none)))


def on_begin_response(replica: Replica, source: int, response: BeginQuorumEpochResponse) -> bool:
    return epochs.judge(replica, response) is not Verdict.RETRY_LATER


# Giving up


def on_resign_requested(replica: Replica, event: ResignRequested) -> None:
    leader = replica.role
    if isinstance(leader, Leader) and leader.epoch == event.epoch:
        leader.is_resigning = True


def poll_resigned(replica: Replica, resigned: Resigned) -> None:
    if replica.now_ms >= resigned.election_deadline_ms and not replica.is_stopping:
        # In a new epoch: in the old one others would still name this replica as the leader.
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
    error = epochs.refusal_by_cluster(replica, request.cluster_id)
    if error is not None:
        replica.respond(request_id, EndQuorumEpochResponse(error=error))
        return
    error = epochs.refusal_to_claimant(replica, request.leader_id, request.leader_epoch)
    if error is None:
        epochs.learn(replica, request.leader_id, request.leader_epoch, request.leader_endpoints)
        follower = replica.role
        if isinstance(follower, Follower) and follower.leader_id == request.leader_id:
            follower.fetch_deadline_ms = replica.now_ms + _succession_delay_ms(replica, request.preferred_candidates)
            # The leader itself has said so: whoever wants to follow it need not wait for this replica's patience.
            follower.has_fetched = False
    replica.respond(request_id, replica.named(EndQuorumEpochResponse(error=error or ErrorCode.none)))


def _succession_delay_ms(replica: Replica, candidates: tuple[ReplicaKey, ...]) -> int:
    """None for the best candidate, and twice as long for each further one, so that they do not get in each other's
    way."""
    delay_max_ms = replica.settings.election_backoff_max_ms
    positions = [position for position, key in enumerate(candidates) if matches(key, replica.key)]
    position = positions[0] if positions else len(candidates)
    if position == 0:
        return 0
    if position >= len(candidates):
        return delay_max_ms
    return min(delay_max_ms, (delay_max_ms >> (len(candidates) - 1)) << (position - 1))


def on_end_response(replica: Replica, source: int, response: EndQuorumEpochResponse) -> bool:
    verdict = epochs.judge(replica, response)
    if verdict is Verdict.GO_ON and isinstance(replica.role, Resigned):
        replica.role.unacknowledged.discard(source)
    return verdict is not Verdict.RETRY_LATER

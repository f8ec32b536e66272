"""Epochs and leaders that others tell of: what a replica believes of them, and which requests it may serve.

A higher epoch is always believed, a lower one never. Within one epoch there is one leader; two would be the end.
"""

from enum import Enum, auto

from odradek.base.errors import ErrorCode
from odradek.core.raft.errors import BrokenQuorum
from odradek.core.raft.messages import LeaderNaming
from odradek.core.raft.replica import Replica
from odradek.core.raft.roles import Leader
from odradek.core.raft.voter_set import ReplicaKey, matches
from odradek.records.control import VoterEndpoint


class Verdict(Enum):
    GO_ON = auto()
    """The response is of this epoch, and its own matter is to be looked at."""
    SETTLED = auto()
    """There is nothing more in it."""
    RETRY_LATER = auto()


def refusal_by_cluster(replica: Replica, cluster_id: str | None) -> ErrorCode | None:
    """Who does not say its cluster is not asked for it."""
    is_other = cluster_id is not None and cluster_id != replica.identity.cluster_id
    return ErrorCode.inconsistent_cluster_id if is_other else None


def refusal_to_claimant(replica: Replica, node_id: int, epoch: int) -> ErrorCode | None:
    """Of somebody that leads or wants to lead."""
    if epoch < replica.epoch:
        return ErrorCode.fenced_leader_epoch
    return ErrorCode.invalid_request if node_id < 0 or node_id == replica.identity.node_id else None


def refusal_to_follower(replica: Replica, epoch: int) -> ErrorCode | None:
    """Of somebody that takes this replica for the leader of this epoch."""
    if epoch < replica.epoch:
        return ErrorCode.fenced_leader_epoch
    if epoch > replica.epoch:
        return ErrorCode.unknown_leader_epoch
    if not isinstance(replica.role, Leader):
        return ErrorCode.not_leader_or_follower
    return ErrorCode.broker_not_available if replica.is_stopping else None


def is_meant_for(replica: Replica, voter: ReplicaKey) -> bool:
    """Not for the same node with another disk, which may have promised something else."""
    return voter.node_id < 0 or matches(voter, replica.key)


def learn(replica: Replica, leader_id: int, epoch: int, endpoints: tuple[VoterEndpoint, ...]) -> None:
    """Somebody says who leads in this epoch; negative: nobody yet. What it says of this replica itself is no news."""
    if epoch < replica.epoch or leader_id == replica.identity.node_id:
        return
    _check_consistency(replica, leader_id, epoch)
    if leader_id < 0:
        if epoch > replica.epoch:
            replica.become_unattached(epoch)
        return
    endpoints = endpoints or replica.voters.endpoints(leader_id)
    is_news = epoch > replica.epoch or replica.leader_id is None
    if endpoints and (is_news or len(endpoints) > len(replica.leader_endpoints)):
        replica.become_follower(epoch, leader_id, endpoints)
    elif is_news:
        # Known, but not where: others will say.
        replica.become_unattached(epoch, leader_id=leader_id)


def judge(replica: Replica, response: LeaderNaming) -> Verdict:
    """What every response tells, whatever it answers."""
    error, epoch = response.error, response.leader_epoch
    if epoch < 0 or error is ErrorCode.unknown_leader_epoch or error is ErrorCode.broker_not_available:
        return Verdict.RETRY_LATER
    if response.leader_id == replica.identity.node_id != replica.leader_id:
        # It led with a disk that is gone. Somebody else will lead before long.
        return Verdict.RETRY_LATER
    if epoch < replica.epoch:
        return Verdict.SETTLED
    if epoch > replica.epoch or error is ErrorCode.fenced_leader_epoch:
        learn(replica, response.leader_id, epoch, response.leader_endpoints)
        return Verdict.SETTLED
    if error is ErrorCode.not_leader_or_follower:
        known = (replica.leader_id, replica.leader_endpoints)
        learn(replica, response.leader_id, epoch, response.leader_endpoints)
        is_news = known != (replica.leader_id, replica.leader_endpoints)
        # A leader that has resigned still names itself: asking again at once would bring the same answer.
        return Verdict.SETTLED if is_news else Verdict.RETRY_LATER
    if error is ErrorCode.invalid_voter_key:
        return Verdict.SETTLED
    learn(replica, response.leader_id, epoch, response.leader_endpoints)
    return Verdict.GO_ON if error is ErrorCode.none or _is_own_matter(error) else Verdict.RETRY_LATER


def _is_own_matter(error: ErrorCode) -> bool:
    """Of the request that was answered, and no obstacle to it for long."""
    return error in (ErrorCode.snapshot_not_found, ErrorCode.position_out_of_range)


def _check_consistency(replica: Replica, leader_id: int, epoch: int) -> None:
    if leader_id >= 0 and epoch == replica.epoch and replica.leader_id not in (None, leader_id):
        raise BrokenQuorum(f"epoch {epoch} has two leaders: node {replica.leader_id} and node {leader_id}")

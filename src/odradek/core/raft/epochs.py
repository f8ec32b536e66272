"""Epochs and leaders in requests and responses: what a replica accepts, and which requests it may serve.

A replica always adopts a higher epoch and never a lower one. An epoch has at most one leader; two stop the replica.
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
    CONTINUE = auto()
    """The response is of this epoch: process its contents."""
    DONE = auto()
    """There is nothing more to process."""
    RETRY_LATER = auto()


def check_cluster_id(replica: Replica, cluster_id: str | None) -> ErrorCode | None:
    """A request without a cluster ID is accepted."""
    is_other = cluster_id is not None and cluster_id != replica.identity.cluster_id
    return ErrorCode.inconsistent_cluster_id if is_other else None


def check_claimant_epoch(replica: Replica, node_id: int, epoch: int) -> ErrorCode | None:
    """Checks the epoch of a leader or candidate."""
    if epoch < replica.epoch:
        return ErrorCode.fenced_leader_epoch
    return ErrorCode.invalid_request if node_id < 0 or node_id == replica.identity.node_id else None


def check_fetcher_epoch(replica: Replica, epoch: int) -> ErrorCode | None:
    """Checks the epoch of a node that sends its request to the leader."""
    if epoch < replica.epoch:
        return ErrorCode.fenced_leader_epoch
    if epoch > replica.epoch:
        return ErrorCode.unknown_leader_epoch
    if not isinstance(replica.role, Leader):
        return ErrorCode.not_leader_or_follower
    return ErrorCode.broker_not_available if replica.is_stopping else None


def is_meant_for(replica: Replica, voter: ReplicaKey) -> bool:
    """Not for the same node with another directory, which may have voted differently."""
    return voter.node_id < 0 or matches(voter, replica.key)


def observe_leader(replica: Replica, leader_id: int, epoch: int, endpoints: tuple[VoterEndpoint, ...]) -> None:
    """A message names the leader of this epoch; a negative ID means none. Messages about this replica are ignored."""
    if epoch < replica.epoch or leader_id == replica.identity.node_id:
        return
    _check_consistency(replica, leader_id, epoch)
    if leader_id < 0:
        if epoch > replica.epoch:
            replica.become_unattached(epoch)
        return
    endpoints = endpoints or replica.voters.endpoints(leader_id)
    is_new = epoch > replica.epoch or replica.leader_id is None
    if endpoints and (is_new or len(endpoints) > len(replica.leader_endpoints)):
        replica.become_follower(epoch, leader_id, endpoints)
    elif is_new:
        # The leader's endpoints are unknown: other nodes may know them.
        replica.become_unattached(epoch, leader_id=leader_id)


def check_response(replica: Replica, response: LeaderNaming) -> Verdict:
    """Processes what all responses have in common: error, epoch and leader."""
    error, epoch = response.error, response.leader_epoch
    if epoch < 0 or error is ErrorCode.unknown_leader_epoch or error is ErrorCode.broker_not_available:
        return Verdict.RETRY_LATER
    if response.leader_id == replica.identity.node_id != replica.leader_id:
        # This node led with a directory that it has lost. Another node will be elected soon.
        return Verdict.RETRY_LATER
    if epoch < replica.epoch:
        return Verdict.DONE
    if epoch > replica.epoch or error is ErrorCode.fenced_leader_epoch:
        observe_leader(replica, response.leader_id, epoch, response.leader_endpoints)
        return Verdict.DONE
    if error is ErrorCode.not_leader_or_follower:
        known = (replica.leader_id, replica.leader_endpoints)
        observe_leader(replica, response.leader_id, epoch, response.leader_endpoints)
        is_new = known != (replica.leader_id, replica.leader_endpoints)
        # A resigned leader still names itself: an immediate retry would get the same response.
        return Verdict.DONE if is_new else Verdict.RETRY_LATER
    if error is ErrorCode.invalid_voter_key:
        return Verdict.DONE
    observe_leader(replica, response.leader_id, epoch, response.leader_endpoints)
    return Verdict.CONTINUE if error is ErrorCode.none or _is_request_specific(error) else Verdict.RETRY_LATER


def _is_request_specific(error: ErrorCode) -> bool:
    """Errors that the sender of the request handles itself."""
    return error in (ErrorCode.snapshot_not_found, ErrorCode.position_out_of_range)


def _check_consistency(replica: Replica, leader_id: int, epoch: int) -> None:
    if leader_id >= 0 and epoch == replica.epoch and replica.leader_id not in (None, leader_id):
        raise BrokenQuorum(f"epoch {epoch} has two leaders: node {replica.leader_id} and node {leader_id}")

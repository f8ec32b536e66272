"""The quorum as its leader describes it in DescribeQuorum."""

from collections.abc import Iterable

from odradek.base.errors import ErrorCode
from odradek.core.raft.messages import UNKNOWN_OFFSET, DescribeQuorumResponse, ReplicaStatus
from odradek.core.raft.progress import ReplicaProgress
from odradek.core.raft.replica import Replica
from odradek.core.raft.roles import Leader


def describe(replica: Replica) -> DescribeQuorumResponse:
    leader = replica.role
    if not isinstance(leader, Leader):
        return DescribeQuorumResponse(error=ErrorCode.not_leader_or_follower)
    leader.progress.remove_expired_observers(replica.now_ms)
    return DescribeQuorumResponse(
        leader_id=replica.identity.node_id,
        leader_epoch=leader.epoch,
        high_watermark=UNKNOWN_OFFSET if leader.high_watermark is None else leader.high_watermark,
        voters=_statuses(replica, leader.progress.voters.values()),
        observers=_statuses(replica, leader.progress.observers.values()),
        endpoints=tuple((voter.voter_id, voter.endpoints) for voter in replica.voters),
    )


def _statuses(replica: Replica, replicas: Iterable[ReplicaProgress]) -> tuple[ReplicaStatus, ...]:
    return tuple(_status(replica, progress) for progress in sorted(replicas, key=lambda one: one.key.node_id))


def _status(replica: Replica, progress: ReplicaProgress) -> ReplicaStatus:
    if progress.key.node_id == replica.identity.node_id:
        # A leader does not fetch from itself: it is always caught up.
        return ReplicaStatus(
            replica=progress.key,
            log_end_offset=replica.log.end_offset,
            last_fetch_ms=replica.now_ms,
            last_caught_up_ms=replica.now_ms,
        )
    return ReplicaStatus(
        replica=progress.key,
        log_end_offset=UNKNOWN_OFFSET if progress.end_offset is None else progress.end_offset,
        last_fetch_ms=progress.last_fetch_ms,
        last_caught_up_ms=progress.last_caught_up_ms,
    )

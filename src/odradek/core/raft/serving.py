"""How the leader serves Fetch and FetchSnapshot. A Fetch also acknowledges everything before its offset."""

from odradek.base.errors import ErrorCode
from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft import committing, epochs, pending_fetches
from odradek.core.raft.effects import RespondWithSnapshot
from odradek.core.raft.log_view import BOOTSTRAP_SNAPSHOT, BehindSnapshot, Diverging
from odradek.core.raft.messages import FetchRequest, FetchResponse, FetchSnapshotRequest, FetchSnapshotResponse
from odradek.core.raft.replica import Replica
from odradek.core.raft.roles import Leader


def on_fetch_request(replica: Replica, request_id: int, request: FetchRequest) -> None:
    error = epochs.check_cluster_id(replica, request.cluster_id)
    if error is not None:
        replica.respond(request_id, FetchResponse(error=error))
        return
    error = _check_request(replica, request) or epochs.check_fetcher_epoch(replica, request.current_leader_epoch)
    leader = replica.role
    if error is not None or not isinstance(leader, Leader):
        replica.respond(request_id, replica.with_leader(FetchResponse(error=error or ErrorCode.not_leader_or_follower)))
        return
    pending_fetches.serve_replaced(replica, leader, request)
    match replica.log.compare(request.fetch_offset, request.last_fetched_epoch):
        case Diverging(end):
            replica.respond(request_id, pending_fetches.build_response(replica, leader, diverging_epoch=end))
        case BehindSnapshot(snapshot_id):
            replica.respond(request_id, pending_fetches.build_response(replica, leader, snapshot_id=snapshot_id))
        case _:
            _note_progress(replica, leader, request)
            pending_fetches.serve_or_wait(replica, leader, request_id, request)


def _check_request(replica: Replica, request: FetchRequest) -> ErrorCode | None:
    is_valid = (
        request.max_wait_ms >= 0
        and request.fetch_offset >= 0
        and 0 <= request.last_fetched_epoch <= request.current_leader_epoch
        and request.replica.node_id != replica.identity.node_id
    )
    return None if is_valid else ErrorCode.invalid_request


def _note_progress(replica: Replica, leader: Leader, request: FetchRequest) -> None:
    """The fetcher's log equals this one up to the fetch offset, and is synced up to there."""
    if request.replica.node_id < 0:
        return
    progress = leader.progress.of(request.replica, replica.now_ms)
    progress.on_fetch(request.fetch_offset, replica.log.end_offset, replica.now_ms)
    committing.note_fetch(replica, leader, request.replica)
    committing.advance(replica, leader)


def on_fetch_snapshot_request(replica: Replica, request_id: int, request: FetchSnapshotRequest) -> None:
    error = epochs.check_cluster_id(replica, request.cluster_id)
    if error is not None:
        replica.respond(request_id, FetchSnapshotResponse(error=error))
        return
    error = epochs.check_fetcher_epoch(replica, request.current_leader_epoch)
    if error is None:
        error = _check_snapshot(replica, request.snapshot_id, request.position)
    leader = replica.role
    if error is not None or not isinstance(leader, Leader):
        error = error or ErrorCode.not_leader_or_follower
        replica.respond(request_id, replica.with_leader(FetchSnapshotResponse(error=error)))
        return
    committing.note_fetch(replica, leader, request.replica)
    response = FetchSnapshotResponse(
        snapshot_id=request.snapshot_id,
        size_bytes=replica.log.snapshots[request.snapshot_id],
        position=request.position,
    )
    replica.emit(RespondWithSnapshot(request_id, replica.with_leader(response), request.max_bytes))


def _check_snapshot(replica: Replica, snapshot_id: SnapshotId, position: int) -> ErrorCode | None:
    size_bytes = replica.log.snapshots.get(snapshot_id)
    if size_bytes is None or snapshot_id == BOOTSTRAP_SNAPSHOT:
        return ErrorCode.snapshot_not_found
    return None if 0 <= position < size_bytes else ErrorCode.position_out_of_range

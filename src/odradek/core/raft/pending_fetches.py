"""Fetches that found no new data wait at the leader, one per replica, until there is some or their wait ends."""

from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft.batch import OffsetAndEpoch
from odradek.core.raft.effects import RespondWithRecords
from odradek.core.raft.messages import UNKNOWN_OFFSET, FetchRequest, FetchResponse
from odradek.core.raft.replica import Replica
from odradek.core.raft.roles import Leader, PendingFetch

PENDING_FETCHES_MAX = 10_000


def serve_or_wait(replica: Replica, leader: Leader, request_id: int, request: FetchRequest) -> None:
    is_full = len(leader.pending_fetches) >= PENDING_FETCHES_MAX
    if has_new_data(replica, leader, request) or request.max_wait_ms == 0 or is_full:
        _serve(replica, leader, request_id, request)
    else:
        deadline_ms = replica.now_ms + request.max_wait_ms
        leader.pending_fetches[request_id] = PendingFetch(request=request, deadline_ms=deadline_ms)


def has_new_data(replica: Replica, leader: Leader, request: FetchRequest) -> bool:
    """Records, or a high watermark that the fetcher does not have yet (KIP-1166)."""
    if request.fetch_offset < replica.log.end_offset:
        return True
    return leader.high_watermark is not None and leader.high_watermark > request.high_watermark


def serve_ready(replica: Replica, leader: Leader) -> None:
    """Serves the fetches for which there is new data."""
    for request_id, pending in list(leader.pending_fetches.items()):
        if has_new_data(replica, leader, pending.request):
            _serve(replica, leader, request_id, pending.request)


def serve_replaced(replica: Replica, leader: Leader, request: FetchRequest) -> None:
    """A replica that fetches again does not wait for its previous fetch any more."""
    if request.replica.node_id < 0:
        return
    for request_id, pending in list(leader.pending_fetches.items()):
        if pending.request.replica == request.replica:
            _serve(replica, leader, request_id, pending.request)


def expire(replica: Replica, leader: Leader) -> None:
    for request_id, pending in list(leader.pending_fetches.items()):
        if replica.now_ms >= pending.deadline_ms:
            _serve(replica, leader, request_id, pending.request)
        else:
            replica.wake_at(pending.deadline_ms)


def _serve(replica: Replica, leader: Leader, request_id: int, request: FetchRequest) -> None:
    leader.pending_fetches.pop(request_id, None)
    end_offset = replica.log.end_offset
    response = build_response(replica, leader)
    if request.fetch_offset < end_offset:
        replica.emit(RespondWithRecords(request_id, response, request.fetch_offset, end_offset, request.max_bytes))
    else:
        replica.respond(request_id, response)


def build_response(
    replica: Replica,
    leader: Leader,
    *,
    diverging_epoch: OffsetAndEpoch | None = None,
    snapshot_id: SnapshotId | None = None,
) -> FetchResponse:
    return FetchResponse(
        leader_id=replica.identity.node_id,
        leader_epoch=leader.epoch,
        leader_endpoints=replica.identity.endpoints,
        high_watermark=UNKNOWN_OFFSET if leader.high_watermark is None else leader.high_watermark,
        log_start_offset=replica.log.start_offset,
        diverging_epoch=diverging_epoch,
        snapshot_id=snapshot_id,
    )

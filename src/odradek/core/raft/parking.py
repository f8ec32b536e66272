"""Fetches that found nothing new wait at the leader, one per replica, until there is news or their time is up."""

from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft.batch import OffsetAndEpoch
from odradek.core.raft.effects import RespondWithRecords
from odradek.core.raft.messages import UNKNOWN_OFFSET, FetchRequest, FetchResponse
from odradek.core.raft.replica import Replica
from odradek.core.raft.roles import Leader, ParkedFetch

PARKED_MAX = 10_000


def serve_or_park(replica: Replica, leader: Leader, request_id: int, request: FetchRequest) -> None:
    if has_news(replica, leader, request) or request.max_wait_ms == 0 or len(leader.parked) >= PARKED_MAX:
        _serve(replica, leader, request_id, request)
    else:
        deadline_ms = replica.now_ms + request.max_wait_ms
        leader.parked[request_id] = ParkedFetch(request=request, deadline_ms=deadline_ms)


def has_news(replica: Replica, leader: Leader, request: FetchRequest) -> bool:
    """Records, or a high watermark that the fetcher does not know (KIP-1166)."""
    if request.fetch_offset < replica.log.end_offset:
        return True
    return leader.high_watermark is not None and leader.high_watermark > request.high_watermark


def release(replica: Replica, leader: Leader) -> None:
    """Whatever there is news for."""
    for request_id, parked in list(leader.parked.items()):
        if has_news(replica, leader, parked.request):
            _serve(replica, leader, request_id, parked.request)


def release_former(replica: Replica, leader: Leader, request: FetchRequest) -> None:
    """A replica that asks again does not wait for the first answer any more."""
    if request.replica.node_id < 0:
        return
    for request_id, parked in list(leader.parked.items()):
        if parked.request.replica == request.replica:
            _serve(replica, leader, request_id, parked.request)


def expire(replica: Replica, leader: Leader) -> None:
    for request_id, parked in list(leader.parked.items()):
        if replica.now_ms >= parked.deadline_ms:
            _serve(replica, leader, request_id, parked.request)
        else:
            replica.wake_at(parked.deadline_ms)


def _serve(replica: Replica, leader: Leader, request_id: int, request: FetchRequest) -> None:
    leader.parked.pop(request_id, None)
    end_offset = replica.log.end_offset
    response = leaders_response(replica, leader)
    if request.fetch_offset < end_offset:
        replica.emit(RespondWithRecords(request_id, response, request.fetch_offset, end_offset, request.max_bytes))
    else:
        replica.respond(request_id, response)


def leaders_response(
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

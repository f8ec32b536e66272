"""Snapshots: fetched in pieces and put in the log's place, or the host's own."""

from dataclasses import replace

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft import effects, events, messages
from odradek.core.raft.errors import BrokenQuorum
from odradek.core.raft.voters import Quorum
from tests.raft.single import Single, begin_request, fetched, state, vote_request
from tests.raft.world import registration

ID = SnapshotId(10, 1)


def downloading(**fields: object) -> Single:
    single = Single(**fields)  # type: ignore[arg-type]
    single.follow(epoch=max(1, single.machine.epoch))
    send = single.sent(messages.FetchRequest)[0][0]
    single.respond(send, fetched(epoch=single.machine.epoch, snapshot_id=ID))
    return single


def piece(single: Single, piece_data: bytes, at: int = 0, **fields: object) -> None:
    send = single.sent(messages.FetchSnapshotRequest)[0][0]
    response = messages.FetchSnapshotResponse(
        leader_id=2, leader_epoch=single.machine.epoch, snapshot_id=ID, size_bytes=10, position=at, data=piece_data
    )
    single.respond(send, replace(response, **fields))


def test_snapshot_is_downloaded_in_pieces() -> None:
    single = downloading()
    request = single.sent(messages.FetchSnapshotRequest)[0][1]
    assert (request.snapshot_id, request.position) == (ID, 0)
    piece(single, b"123456")
    assert single.one(effects.WriteSnapshotPiece) == effects.WriteSnapshotPiece(ID, 0, b"123456")
    assert single.sent(messages.FetchSnapshotRequest)[0][1].position == 6
    piece(single, b"7890", 6)
    assert single.is_before(effects.WriteSnapshotPiece, effects.LoadSnapshot)
    assert not single.all(effects.Send)


def loaded() -> Single:
    single = downloading(log=(1, 1), found=state(1))
    piece(single, b"1234567890")
    return single


def test_loaded_snapshot_replaces_the_log() -> None:
    single = loaded()
    voters = tuple(registration(node_id, with_directory=True) for node_id in (1, 2))
    single.step(events.SnapshotLoaded(ID, 10, Quorum(1, voters)))
    assert single.one(effects.HighWatermarkAdvanced).offset == 10
    request = single.sent(messages.FetchRequest)[0][1]
    assert (request.fetch_offset, request.last_fetched_epoch) == (10, 1)
    assert single.machine.quorum == Quorum(1, voters)


def test_no_fetch_or_election_while_a_snapshot_is_loaded() -> None:
    single = loaded()
    single.wait(10_000)
    assert not single.sent(messages.FetchRequest)
    assert single.machine.role_name == "Follower"
    single.receive(vote_request(candidate=3, epoch=2, end=(12, 1)))
    single.wait(10_000)
    assert single.machine.role_name == "Unattached"
    single.step(events.SnapshotLoaded(ID, 10, Quorum()))
    assert single.machine.role_name == "Prospective"


def test_unexpected_loaded_snapshot_stops_the_replica() -> None:
    with pytest.raises(BrokenQuorum):
        loaded().step(events.SnapshotLoaded(SnapshotId(11, 1), 10, Quorum()))


@pytest.mark.parametrize(
    "fields",
    [{"snapshot_id": SnapshotId(11, 1)}, {"position": 3}, {"data": b""}, {"error": ErrorCode.request_timed_out}],
)
def test_unexpected_pieces_are_requested_again(fields: dict[str, object]) -> None:
    single = downloading()
    piece(single, b"123456", **fields)
    assert not single.all(effects.WriteSnapshotPiece)
    other = single.sent(messages.FetchRequest)[0][0]
    single.now_ms += 20
    single.respond(other, fetched(error=ErrorCode.not_leader_or_follower))
    assert single.sent(messages.FetchSnapshotRequest)[0][1].position == 0


@pytest.mark.parametrize(
    "error", [ErrorCode.snapshot_not_found, ErrorCode.position_out_of_range, ErrorCode.unknown_server_error]
)
def test_deleted_snapshot_is_abandoned(error: ErrorCode) -> None:
    single = downloading()
    piece(single, b"", error=error, snapshot_id=None)
    assert single.one(effects.AbandonSnapshot).snapshot_id == ID
    assert single.sent(messages.FetchRequest)


def test_snapshot_with_another_size_is_downloaded_again() -> None:
    single = downloading()
    piece(single, b"123456")
    piece(single, b"7890", 6, size_bytes=12)
    assert single.one(effects.AbandonSnapshot).snapshot_id == ID
    assert not single.all(effects.LoadSnapshot)


def test_new_leader_abandons_the_download() -> None:
    single = downloading()
    single.receive(begin_request(3, 2))
    assert single.one(effects.AbandonSnapshot).snapshot_id == ID
    assert single.sent(messages.FetchRequest)[0][0].destination == 3


def test_snapshot_below_the_high_watermark_is_rejected() -> None:
    single = Single(snapshot=SnapshotId(12, 1), found=state(1))
    single.follow()
    with pytest.raises(BrokenQuorum, match="below the high watermark"):
        single.respond(single.sent(messages.FetchRequest)[0][0], fetched(snapshot_id=ID))


# The host's own


def committed() -> Single:
    """Four records, three of them committed."""
    single = Single(log=(1, 1, 2, 2), found=state(2))
    single.follow(epoch=2)
    single.respond(single.sent(messages.FetchRequest)[0][0], fetched(epoch=2, high_watermark=3))
    return single


@pytest.mark.parametrize("snapshot_id", [SnapshotId(4, 2), SnapshotId(3, 1), SnapshotId(2, 2), SnapshotId(9, 2)])
def test_snapshot_contains_only_committed_records(snapshot_id: SnapshotId) -> None:
    with pytest.raises(BrokenQuorum):
        committed().step(events.SnapshotTaken(snapshot_id, 1))


def test_log_may_start_at_a_snapshot_end() -> None:
    single = committed()
    with pytest.raises(BrokenQuorum):
        single.step(events.LogStartAdvanced(SnapshotId(3, 2)))
    for snapshot_id in (SnapshotId(2, 1), SnapshotId(3, 2)):
        single.step(events.SnapshotTaken(snapshot_id, 1))
    single.step(events.LogStartAdvanced(SnapshotId(3, 2)))
    with pytest.raises(BrokenQuorum):
        single.step(events.SnapshotTaken(SnapshotId(2, 1), 1))

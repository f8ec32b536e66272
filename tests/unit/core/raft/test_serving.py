"""A leader's responses to Fetch requests, and what it learns from the requests."""

from dataclasses import replace

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft import effects, events, messages
from odradek.core.raft.batch import OffsetAndEpoch
from tests.raft.single import Single, fetch_request, state, vote_request
from tests.raft.world import key_of


def leader(**fields: object) -> Single:
    """Of the epoch after that of the log; its first record is synced."""
    single = Single(**fields)  # type: ignore[arg-type]
    single.become_leader()
    single.sync()
    return single


def fetch(single: Single, **fields: object) -> messages.FetchResponse:
    request = fetch_request(**{"epoch": single.machine.epoch, **fields})  # type: ignore[arg-type]
    return single.request(request, messages.FetchResponse)


# What is committed


def test_majority_of_fetches_commits() -> None:
    single = leader(voters=(1, 2, 3, 4, 5))
    for replica in (2, 9):
        fetch(single, replica=replica, end=(1, 1), max_wait_ms=0)
        assert not single.all(effects.HighWatermarkAdvanced)
    assert fetch(single, replica=3, end=(1, 1), max_wait_ms=0).high_watermark == 1
    assert single.one(effects.HighWatermarkAdvanced).offset == 1
    assert single.one(effects.LeadershipConfirmed).epoch == 1


def test_records_of_older_epochs_commit_only_with_a_new_one() -> None:
    single = leader(log=(1, 1, 1))
    assert fetch(single, end=(3, 1), max_wait_ms=0).high_watermark == -1
    assert fetch(single, end=(4, 2), max_wait_ms=0).high_watermark == 4


def test_unsynced_records_of_the_leader_do_not_count() -> None:
    single = leader()
    single.step(events.AppendRequested(1, 1, b""))
    change = single.one(effects.Append).change
    fetch(single, replica=2, end=(2, 1), max_wait_ms=0)
    assert single.machine.high_watermark == 1
    single.step(events.LogSynced(change))
    assert single.one(effects.HighWatermarkAdvanced).offset == 2


def test_followers_may_be_ahead_of_the_leaders_disk() -> None:
    single = leader()
    single.step(events.AppendRequested(1, 1, b""))
    for replica in (2, 3):
        fetch(single, replica=replica, end=(2, 1), max_wait_ms=0)
    assert single.machine.high_watermark == 2


def test_high_watermark_never_decreases() -> None:
    single = leader()
    fetch(single, end=(1, 1), max_wait_ms=0)
    assert fetch(single, end=(0, 0), max_wait_ms=0).high_watermark == 1


# Waiting


def test_fetch_without_new_data_waits() -> None:
    single = leader()
    waiting = single.receive(fetch_request(end=(1, 1), high_watermark=1))
    assert not single.all(effects.Respond)
    single.step(events.AppendRequested(1, 2, b""))
    served = single.one(effects.RespondWithRecords)
    assert (served.request_id, served.start_offset, served.end_offset) == (waiting, 1, 3)


def test_pending_fetch_expires() -> None:
    single = leader()
    waiting = single.receive(fetch_request(end=(1, 1), high_watermark=1, max_wait_ms=500))
    assert single.one(effects.SetTimer).at_ms <= single.now_ms + 500
    single.wait(499)
    assert not single.all(effects.Respond)
    single.wait(1)
    assert single.response_to(waiting, messages.FetchResponse).high_watermark == 1


def test_new_high_watermark_completes_a_pending_fetch() -> None:
    single = leader(voters=(1, 2))
    single.receive(fetch_request(replica=9, end=(1, 1), high_watermark=0))
    waiting = 1
    fetch(single, replica=2, end=(1, 1), max_wait_ms=0)
    assert single.response_to(waiting, messages.FetchResponse).high_watermark == 1
    single.receive(fetch_request(replica=9, end=(1, 1), high_watermark=messages.ANY_HIGH_WATERMARK))
    assert not single.all(effects.Respond)


def test_new_fetch_completes_the_previous_one() -> None:
    single = leader()
    first = single.receive(fetch_request(end=(1, 1), high_watermark=1))
    single.receive(fetch_request(end=(1, 1), high_watermark=1))
    assert single.response_to(first, messages.FetchResponse)


def test_lost_leadership_fails_pending_fetches() -> None:
    single = leader()
    waiting = single.receive(fetch_request(end=(1, 1), high_watermark=1))
    single.receive(vote_request(candidate=3, epoch=2, end=(9, 1)))
    refusal = single.response_to(waiting, messages.FetchResponse)
    assert (refusal.error, refusal.leader_epoch) == (ErrorCode.not_leader_or_follower, 2)
    assert single.is_before(effects.PersistQuorumState, effects.Respond)


# Logs that do not agree


@pytest.mark.parametrize(
    ("end", "diverging"),
    [
        ((3, 1), OffsetAndEpoch(2, 1)),
        ((5, 2), OffsetAndEpoch(2, 1)),
        ((9, 4), OffsetAndEpoch(5, 4)),
        ((1, 0), OffsetAndEpoch(0, 0)),
        ((2, 1), None),
        ((4, 3), None),
        ((0, 0), None),
    ],
)
def test_diverging_fetch_gets_the_epoch_end(end: tuple[int, int], diverging: OffsetAndEpoch | None) -> None:
    single = leader(log=(1, 1, 3, 3))
    response = fetch(single, end=end, max_wait_ms=0)
    assert response.diverging_epoch == diverging
    assert bool(single.all(effects.RespondWithRecords)) is (diverging is None)


@pytest.mark.parametrize(
    ("end", "is_behind"),
    [((0, 0), True), ((9, 2), True), ((10, 1), True), ((12, 1), True), ((10, 2), False), ((12, 3), False)],
)
def test_fetch_before_the_log_start_gets_a_snapshot(end: tuple[int, int], is_behind: bool) -> None:
    single = leader(snapshot=SnapshotId(10, 2), log=(2, 3))
    response = fetch(single, end=end, max_wait_ms=0)
    assert response.snapshot_id == (SnapshotId(10, 2) if is_behind else None)
    assert response.diverging_epoch is None


# Refusals


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"epoch": 0}, ErrorCode.fenced_leader_epoch),
        ({"epoch": 2}, ErrorCode.unknown_leader_epoch),
        ({"end": (-1, 0)}, ErrorCode.invalid_request),
        ({"end": (0, -1)}, ErrorCode.invalid_request),
        ({"end": (0, 2)}, ErrorCode.invalid_request),
        ({"max_wait_ms": -1}, ErrorCode.invalid_request),
        ({"replica": 1}, ErrorCode.invalid_request),
    ],
)
def test_invalid_fetches_are_rejected(fields: dict[str, object], error: ErrorCode) -> None:
    single = leader()
    response = fetch(single, **fields)
    assert (response.error, response.leader_id, response.leader_epoch) == (error, 1, 1)


def test_followers_respond_with_the_leader() -> None:
    single = Single(found=state(3, leader=2))
    response = fetch(single, replica=3, epoch=3)
    assert (response.error, response.leader_id) == (ErrorCode.not_leader_or_follower, 2)
    assert response.leader_endpoints
    request = replace(fetch_request(replica=3, epoch=3), cluster_id="another")
    assert single.request(request, messages.FetchResponse).error is ErrorCode.inconsistent_cluster_id


def test_fetches_without_replica_id_do_not_count() -> None:
    single = leader(voters=(1, 2))
    response = fetch(single, replica=-1, end=(1, 1), max_wait_ms=0)
    assert (response.error, response.high_watermark) == (ErrorCode.none, -1)
    assert not single.machine.describe().observers


# Snapshots


def piece_of(single: Single, position: int = 0, **fields: object) -> messages.FetchSnapshotResponse:
    request = messages.FetchSnapshotRequest(
        cluster_id="cluster",
        replica=key_of(2),
        current_leader_epoch=single.machine.epoch,
        snapshot_id=SnapshotId(10, 2),
        position=position,
        max_bytes=64,
    )
    return single.request(replace(request, **fields), messages.FetchSnapshotResponse)


def test_snapshot_is_served_from_any_position() -> None:
    single = leader(snapshot=SnapshotId(10, 2))
    response = piece_of(single, 64)
    assert (response.error, response.size_bytes, response.position) == (ErrorCode.none, 100, 64)
    assert single.one(effects.RespondWithSnapshot).max_bytes == 64


@pytest.mark.parametrize(
    ("position", "fields", "error"),
    [
        (100, {}, ErrorCode.position_out_of_range),
        (-1, {}, ErrorCode.position_out_of_range),
        (0, {"snapshot_id": SnapshotId(9, 2)}, ErrorCode.snapshot_not_found),
        (0, {"snapshot_id": SnapshotId(0, 0)}, ErrorCode.snapshot_not_found),
        (0, {"current_leader_epoch": 1}, ErrorCode.fenced_leader_epoch),
        (0, {"current_leader_epoch": 9}, ErrorCode.unknown_leader_epoch),
        (0, {"cluster_id": "another"}, ErrorCode.inconsistent_cluster_id),
    ],
)
def test_invalid_snapshot_requests_are_rejected(position: int, fields: dict[str, object], error: ErrorCode) -> None:
    assert piece_of(leader(snapshot=SnapshotId(10, 2)), position, **fields).error is error


def test_snapshot_fetch_counts_as_fetch() -> None:
    single = leader(snapshot=SnapshotId(10, 2))
    for _ in range(4):
        single.wait(2000)
        piece_of(single)
    assert single.machine.is_leader

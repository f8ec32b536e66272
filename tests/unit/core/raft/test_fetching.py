"""Followers send one Fetch at a time, after the sync, and never truncate committed records."""

from dataclasses import replace

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft import effects, events, messages
from odradek.core.raft.batch import Batch, OffsetAndEpoch
from odradek.core.raft.errors import BrokenQuorum
from odradek.records.control import Voters
from tests.raft.single import SETTINGS, Single, batches, begin_request, fetched, state
from tests.raft.world import registration


def follower(**fields: object) -> Single:
    single = Single(**fields)  # type: ignore[arg-type]
    single.follow(leader_id=2, epoch=max(1, single.machine.epoch))
    return single


def fetch_of(single: Single) -> tuple[effects.Send, messages.FetchRequest]:
    return single.sent(messages.FetchRequest)[0]


def receive(single: Single, send: effects.Send, **fields: object) -> None:
    single.respond(send, fetched(epoch=single.machine.epoch, **fields))


def test_fetch_contains_the_log_end() -> None:
    single = follower(log=(1, 1, 3), found=state(4))
    send, request = fetch_of(single)
    assert (send.destination, request.fetch_offset, request.last_fetched_epoch) == (2, 3, 3)
    assert (request.current_leader_epoch, request.high_watermark) == (4, 0)


def test_records_are_synced_before_the_next_fetch() -> None:
    single = follower()
    receive(single, fetch_of(single)[0], batches=tuple(batches((1, 1))), high_watermark=1)
    append = single.one(effects.Append)
    assert len(append.batches) == 2
    assert single.one(effects.HighWatermarkAdvanced).offset == 1
    assert not single.all(effects.Send)
    single.step(events.LogSynced(append.change - 1))
    assert not single.all(effects.Send)
    single.step(events.LogSynced(append.change))
    assert fetch_of(single)[1].fetch_offset == 2


def test_high_watermark_never_decreases_or_exceeds_the_log_end() -> None:
    single = follower(log=(1,))
    receive(single, fetch_of(single)[0], high_watermark=9)
    assert single.one(effects.HighWatermarkAdvanced).offset == 1
    for said in (0, -1):
        receive(single, fetch_of(single)[0], high_watermark=said)
        assert not single.all(effects.HighWatermarkAdvanced)
    assert single.machine.high_watermark == 1


def test_follower_has_caught_up_when_its_log_reaches_the_high_watermark_of_the_leader() -> None:
    single = follower(log=(1,))
    for said in (9, -1):
        receive(single, fetch_of(single)[0], high_watermark=said)
        assert not single.machine.has_caught_up
    receive(single, fetch_of(single)[0], high_watermark=1)
    assert single.machine.has_caught_up


def test_follower_at_the_end_of_its_snapshot_has_caught_up_only_after_a_fetch() -> None:
    single = follower(snapshot=SnapshotId(10, 1))
    assert (single.machine.high_watermark, single.machine.has_caught_up) == (10, False)
    receive(single, fetch_of(single)[0], high_watermark=10)
    assert single.machine.has_caught_up


@pytest.mark.parametrize(
    "wrong",
    [
        Batch(base_offset=2, last_offset=2, epoch=1),
        Batch(base_offset=0, last_offset=0, epoch=1),
        Batch(base_offset=1, last_offset=0, epoch=1),
        Batch(base_offset=1, last_offset=1, epoch=9),
        Batch(base_offset=1, last_offset=1, epoch=0),
    ],
)
def test_non_contiguous_batches_are_ignored(wrong: Batch) -> None:
    single = follower()
    good = batches((1,))[0]
    receive(single, fetch_of(single)[0], batches=(good, wrong, *batches((1,), 2)))
    assert single.one(effects.Append).batches == (good,)


def test_one_fetch_at_a_time_and_late_responses_are_ignored() -> None:
    single = follower()
    first = fetch_of(single)[0]
    single.receive(begin_request(2, 1))
    assert not single.all(effects.Send)
    single.wait(SETTINGS.request_timeout_ms - 1)
    single.respond(first, fetched(batches=tuple(batches((1,)))))
    assert single.all(effects.Append)
    single.respond(first, fetched(batches=tuple(batches((1,), 1))))
    assert not single.all(effects.Append)


def test_failed_fetch_queries_other_nodes_for_the_leader() -> None:
    single = follower()
    send = fetch_of(single)[0]
    single.step(events.RequestFailed(send.destination, send.correlation_id))
    other = fetch_of(single)[0]
    assert other.destination == 3
    single.respond(other, fetched(leader_id=3, epoch=2, error=ErrorCode.fenced_leader_epoch))
    assert (single.machine.leader_id, single.machine.epoch) == (3, 2)
    assert fetch_of(single)[0].destination == 3


def test_resigned_leader_is_queried_after_a_backoff() -> None:
    single = follower()
    refusal = fetched(error=ErrorCode.not_leader_or_follower)
    single.respond(fetch_of(single)[0], refusal)
    single.respond(fetch_of(single)[0], refusal)
    assert not single.all(effects.Send)
    single.wait(20)
    assert single.all(effects.Send)


@pytest.mark.parametrize(
    ("log", "diverging", "expected"),
    [
        ((1, 1, 2, 2), OffsetAndEpoch(3, 2), 3),
        ((1, 1, 2, 2), OffsetAndEpoch(2, 1), 2),
        ((1, 1, 3, 3), OffsetAndEpoch(5, 2), 2),
        ((2, 2, 3, 3), OffsetAndEpoch(0, 0), 0),
        ((1, 1, 1, 1), OffsetAndEpoch(2, 1), 2),
    ],
)
def test_diverging_log_is_truncated(log: tuple[int, ...], diverging: OffsetAndEpoch, expected: int) -> None:
    single = follower(log=log, found=state(4))
    receive(single, fetch_of(single)[0], diverging_epoch=diverging)
    assert single.one(effects.Truncate).end_offset == expected
    assert fetch_of(single)[1].fetch_offset == expected


def test_committed_records_are_never_truncated() -> None:
    single = follower(log=(1, 1, 1), found=state(4))
    receive(single, fetch_of(single)[0], high_watermark=2)
    with pytest.raises(BrokenQuorum, match="below the high watermark 2"):
        receive(single, fetch_of(single)[0], diverging_epoch=OffsetAndEpoch(1, 1))


def test_truncation_reverts_a_voter_change() -> None:
    single = follower(kraft_version=1)
    voters = tuple(registration(node_id, with_directory=True) for node_id in (1, 2))
    change = Batch(base_offset=0, last_offset=0, epoch=1, control=(Voters(voters=voters),))
    receive(single, fetch_of(single)[0], batches=(change,))
    assert [voter.voter_id for voter in single.machine.quorum.voters] == [1, 2]
    single.sync()
    single.receive(begin_request(3, 2))
    send = fetch_of(single)[0]
    single.respond(send, fetched(leader_id=3, epoch=2, diverging_epoch=OffsetAndEpoch(0, 0)))
    assert [voter.voter_id for voter in single.machine.quorum.voters] == [1, 2, 3]


def test_fetch_timeout_starts_an_election() -> None:
    single = follower()
    single.wait(1999)
    assert single.machine.role_name == "Follower"
    single.wait(1)
    assert single.machine.role_name == "Prospective"


def test_observer_finds_the_leader_and_fetches() -> None:
    single = Single(voters=(2, 3), found=state(1))
    send = fetch_of(single)[0]
    single.respond(send, fetched(leader_id=3, batches=tuple(batches((1,))), high_watermark=1))
    assert (single.machine.role_name, single.machine.leader_id) == ("Follower", 3)
    assert single.is_before(effects.PersistQuorumState, effects.Append)


def test_bootstrap_servers_are_queried_by_negative_ids() -> None:
    single = Single(voters=(), settings=replace(SETTINGS, bootstrap_ids=(-2,)))
    send = fetch_of(single)[0]
    assert (send.destination, send.endpoints) == (-2, ())
    endpoints = registration(7, with_directory=True).endpoints
    refusal = fetched(leader_id=7, epoch=3, leader_endpoints=endpoints, error=ErrorCode.fenced_leader_epoch)
    single.respond(send, refusal)
    send = fetch_of(single)[0]
    assert (send.destination, send.endpoints) == (7, endpoints)


def test_leader_without_address_is_kept_until_it_is_known() -> None:
    single = Single(voters=(2, 3))
    single.respond(fetch_of(single)[0], fetched(leader_id=7, epoch=3, error=ErrorCode.fenced_leader_epoch))
    assert (single.machine.role_name, single.machine.leader_id) == ("Unattached", 7)
    request = replace(begin_request(7, 3), leader_endpoints=registration(7, with_directory=True).endpoints)
    single.receive(request)
    assert single.machine.role_name == "Follower"


@pytest.mark.parametrize("error", [ErrorCode.inconsistent_cluster_id, ErrorCode.cluster_authorization_failed])
def test_errors_are_followed_by_a_backoff(error: ErrorCode) -> None:
    single = Single(voters=(2,))
    single.respond(fetch_of(single)[0], messages.FetchResponse(error=error))
    assert not single.all(effects.Send)
    single.wait(20)
    assert single.all(effects.Send)

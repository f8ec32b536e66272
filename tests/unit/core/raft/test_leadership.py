"""Leadership: the first records, BeginQuorumEpoch, and resignation."""

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.raft import effects, events, messages
from odradek.core.raft.errors import BrokenQuorum
from odradek.records.control import KRaftVersion, LeaderChangeV0, VoterById, Voters
from tests.raft.single import Single, begin_request, end_request, fetch_request, fetched, state, vote_request


def leader(**fields: object) -> Single:
    single = Single(**fields)  # type: ignore[arg-type]
    single.become_leader()
    return single


# The epoch's first record


def test_new_leader_writes_a_leader_change_record() -> None:
    single = leader(log=(1, 1))
    batch = single.one(effects.Append).batches[0]
    assert (batch.base_offset, batch.epoch) == (2, 2)
    voters = tuple(VoterById(voter_id=one) for one in (1, 2, 3))
    granting = tuple(VoterById(voter_id=one) for one in (1, 2))
    assert batch.control == (LeaderChangeV0(leader_id=1, voters=voters, granting_voters=granting),)
    assert single.one(effects.BecameLeader) == effects.BecameLeader(2, 2)


def test_new_leader_writes_voters_that_are_not_in_the_log() -> None:
    single = leader(kraft_version=1)
    kinds = [type(message) for message in single.one(effects.Append).batches[0].control]
    assert kinds == [LeaderChangeV0, KRaftVersion, Voters]


# Telling others


def test_unresponsive_voters_receive_begin_quorum_epoch() -> None:
    single = leader()
    assert {send.destination for send, _ in single.sent(messages.BeginQuorumEpochRequest)} == {2, 3}
    for send, _ in single.sent(messages.BeginQuorumEpochRequest):
        single.respond(send, messages.BeginQuorumEpochResponse(leader_id=1, leader_epoch=1))
    single.wait(500)
    single.receive(fetch_request(replica=2))
    single.wait(500)
    assert [send.destination for send, _ in single.sent(messages.BeginQuorumEpochRequest)] == [3]


def test_begin_quorum_epoch_makes_a_follower() -> None:
    single = Single()
    single.follow(leader_id=3, epoch=4)
    assert single.is_before(effects.PersistQuorumState, effects.Respond)
    assert single.one(effects.PersistQuorumState).state == state(4, leader=3)
    assert single.sent(messages.FetchRequest)[0][0].destination == 3


def test_invalid_epoch_requests_are_rejected() -> None:
    single = Single(found=state(5))
    for request, error in {
        begin_request(2, 4): ErrorCode.fenced_leader_epoch,
        begin_request(-1, 5): ErrorCode.invalid_request,
        begin_request(1, 6): ErrorCode.invalid_request,
    }.items():
        assert single.request(request, messages.BeginQuorumEpochResponse).error is error
    assert single.machine.epoch == 5


def test_two_leaders_of_one_epoch_stop_the_replica() -> None:
    single = Single()
    single.follow(leader_id=2, epoch=1)
    with pytest.raises(BrokenQuorum, match="two leaders"):
        single.receive(begin_request(3, 1))
    with pytest.raises(BrokenQuorum, match="two leaders"):
        leader().receive(begin_request(3, 1))


def test_claim_that_this_replica_leads_is_ignored() -> None:
    single = Single(voters=(2, 3))
    send = single.sent(messages.FetchRequest)[0][0]
    single.respond(send, fetched(leader_id=1, epoch=7, error=ErrorCode.fenced_leader_epoch))
    assert (single.machine.role_name, single.machine.epoch) == ("Unattached", 0)


# Giving up


def test_leader_without_followers_resigns() -> None:
    single = leader()
    single.wait(2999)
    assert single.machine.is_leader
    single.wait(1)
    assert single.machine.role_name == "Resigned"
    assert single.one(effects.LeadershipLost).epoch == 1
    assert {send.destination for send, _ in single.sent(messages.EndQuorumEpochRequest)} == {2, 3}


@pytest.mark.parametrize(("followers", "remains"), [((2,), False), ((2, 3), True), ((9, 10), False)])
def test_leader_needs_fetches_of_a_majority(followers: tuple[int, ...], remains: bool) -> None:
    single = leader(voters=(1, 2, 3, 4, 5))
    single.wait(2000)
    for node_id in followers:
        single.receive(fetch_request(replica=node_id, max_wait_ms=0))
    single.wait(1500)
    assert single.machine.is_leader is remains


def test_resignation_names_successors_and_fails_pending_requests() -> None:
    single = leader()
    single.sync()
    single.receive(fetch_request(replica=2, end=(0, 0)))
    waiting = single.receive(fetch_request(replica=3, end=(1, 1), high_watermark=1))
    single.step(events.ResignRequested(0))
    assert single.machine.is_leader
    single.step(events.ResignRequested(1))
    refusal = single.response_to(waiting, messages.FetchResponse)
    assert refusal.error is ErrorCode.not_leader_or_follower
    ended = [request for _, request in single.sent(messages.EndQuorumEpochRequest)]
    assert {tuple(key.node_id for key in request.preferred_candidates) for request in ended} == {(3, 2)}
    single.step(events.AppendRequested(1, 1, b""))
    assert single.all(effects.AppendRejected)


def test_end_quorum_epoch_is_repeated_until_acknowledged() -> None:
    single = Single(found=state(3, leader=1))
    first, second = (send for send, _ in single.sent(messages.EndQuorumEpochRequest))
    single.respond(first, messages.EndQuorumEpochResponse(leader_id=1, leader_epoch=3))
    single.step(events.RequestFailed(second.destination, second.correlation_id))
    single.wait(20)
    assert [send.destination for send, _ in single.sent(messages.EndQuorumEpochRequest)] == [second.destination]


@pytest.mark.parametrize(
    ("candidates", "delay_ms"),
    [((1, 3), 0), ((3, 1), 500), ((3, 4, 1), 500), ((3, 1, 4), 250), ((3, 4), 1000), ((), 0)],
)
def test_successors_start_elections_one_after_the_other(candidates: tuple[int, ...], delay_ms: int) -> None:
    single = Single()
    single.follow(leader_id=2, epoch=1)
    single.receive(end_request(candidates))
    if delay_ms:
        single.wait(delay_ms - 1)
        assert single.machine.role_name == "Follower"
        single.wait(1)
    assert single.machine.role_name == "Prospective"


def test_voter_grants_pre_votes_after_end_quorum_epoch() -> None:
    single = Single()
    single.follow(leader_id=2, epoch=1)
    single.respond(single.sent(messages.FetchRequest)[0][0], fetched())
    single.receive(end_request((3, 1)))
    assert single.request(vote_request(candidate=3, epoch=1, pre_vote=True), messages.VoteResponse).vote_granted


def test_stopping_hands_over_leadership() -> None:
    single = leader()
    single.step(events.StopRequested())
    assert single.machine.role_name == "Resigned"
    assert not single.all(effects.ReadyToStop)
    single.wait(60_000)
    assert single.machine.role_name == "Resigned"
    single.receive(begin_request(2, 2))
    assert single.all(effects.ReadyToStop)


@pytest.mark.parametrize("single", [Single(voters=(1,)), Single(voters=(2, 3)), Single(found=state(2, leader=3))])
def test_replica_that_is_not_needed_stops_at_once(single: Single) -> None:
    single.step(events.StopRequested())
    assert single.all(effects.ReadyToStop)
    assert not single.wait(10) or not single.all(effects.ReadyToStop)


def test_append_is_rejected_in_another_epoch() -> None:
    single = leader()
    single.step(events.AppendRequested(1, 3, b"three"))
    batch = single.one(effects.Append).batches[0]
    assert (batch.base_offset, batch.last_offset, batch.epoch, batch.data) == (1, 3, 1, b"three")
    for epoch in (0, 2):
        single.step(events.AppendRequested(epoch, 1, b""))
        assert single.one(effects.AppendRejected)
    follower = Single()
    follower.step(events.AppendRequested(0, 1, b""))
    assert follower.one(effects.AppendRejected)

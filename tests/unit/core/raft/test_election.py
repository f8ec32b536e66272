"""Which candidates get a vote, and what has to be durable before a response or request is sent."""

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.raft import effects, events, messages
from tests.raft.single import Single, batches, fetched, state, vote_request
from tests.raft.world import key_of


def granted(single: Single, request: messages.VoteRequest) -> bool:
    response = single.request(request, messages.VoteResponse)
    assert not response.error
    return response.vote_granted


# Votes


def test_vote_is_persisted_before_it_is_sent() -> None:
    single = Single(log=(1, 1))
    assert granted(single, vote_request(epoch=2, end=(2, 1)))
    states = [effect.state for effect in single.all(effects.PersistQuorumState)]
    assert (states[-1].leader_epoch, states[-1].voted_id, states[-1].voted_directory_id) == (2, 2, key_of(2)[1])
    kinds = [type(effect) for effect in single.effects]
    assert kinds.index(effects.Respond) > len(kinds) - 1 - kinds[::-1].index(effects.PersistQuorumState)


def test_one_vote_per_epoch_can_be_requested_repeatedly() -> None:
    single = Single()
    assert granted(single, vote_request(candidate=2))
    assert not granted(single, vote_request(candidate=3))
    assert granted(single, vote_request(candidate=2))
    assert not single.all(effects.PersistQuorumState)
    assert granted(single, vote_request(candidate=3, epoch=2))


def test_vote_survives_a_restart() -> None:
    single = Single(found=state(4, voted=2))
    assert not granted(single, vote_request(candidate=3, epoch=4))
    assert granted(single, vote_request(candidate=2, epoch=4))


@pytest.mark.parametrize(("end", "expected"), [((2, 2), False), ((3, 1), False), ((3, 2), True), ((2, 3), True)])
def test_only_an_up_to_date_log_gets_a_vote(end: tuple[int, int], expected: bool) -> None:
    single = Single(log=(1, 2, 2))
    assert granted(single, vote_request(epoch=5, end=end)) is expected
    assert single.machine.epoch == 5


def test_unsynced_local_records_count_in_log_comparison() -> None:
    single = Single()
    single.follow(epoch=1)
    single.respond(single.sent(messages.FetchRequest)[0][0], fetched(batches=tuple(batches((1, 1)))))
    assert not granted(single, vote_request(epoch=2, end=(1, 1)))
    assert granted(single, vote_request(epoch=3, end=(2, 1)))


def test_no_vote_where_there_is_a_leader() -> None:
    follower = Single()
    follower.follow(epoch=1)
    assert not granted(follower, vote_request(candidate=3, epoch=1))
    leader = Single()
    leader.become_leader()
    assert not granted(leader, vote_request(candidate=3, epoch=1))
    resigned = Single(found=state(3, leader=1))
    assert resigned.machine.role_name == "Resigned"
    assert not granted(resigned, vote_request(candidate=3, epoch=3))
    candidate = Single(found=state(3, voted=1))
    assert candidate.machine.role_name == "Candidate"
    assert not granted(candidate, vote_request(candidate=3, epoch=3))


def test_higher_epoch_is_always_adopted() -> None:
    leader = Single()
    leader.become_leader()
    assert granted(leader, vote_request(epoch=2, end=(1, 1)))
    assert leader.machine.role_name == "Unattached"
    assert leader.all(effects.LeadershipLost)


def test_invalid_vote_requests_are_rejected() -> None:
    single = Single(log=(3,))
    refusals = {
        vote_request(epoch=2): ErrorCode.fenced_leader_epoch,
        vote_request(epoch=4, end=(-1, 0)): ErrorCode.invalid_request,
        vote_request(epoch=4, end=(1, -1)): ErrorCode.invalid_request,
        vote_request(epoch=4, end=(1, 4)): ErrorCode.invalid_request,
        vote_request(epoch=4, end=(1, 5), pre_vote=True): ErrorCode.invalid_request,
        vote_request(candidate=1, epoch=4): ErrorCode.invalid_request,
        vote_request(candidate=-1, epoch=4): ErrorCode.invalid_request,
        vote_request(cluster_id="another", epoch=4): ErrorCode.inconsistent_cluster_id,
    }
    for request, error in refusals.items():
        response = single.request(request, messages.VoteResponse)
        assert (response.error, response.vote_granted) == (error, False), request
    assert single.machine.epoch == 3


def test_vote_request_for_another_directory_is_rejected() -> None:
    single = Single()
    request = vote_request(epoch=4, voter=key_of(1)._replace(directory_id=key_of(9).directory_id))
    assert single.request(request, messages.VoteResponse).error is ErrorCode.invalid_voter_key
    assert single.machine.epoch == 4
    without_directory = vote_request(epoch=4, voter=key_of(1)._replace(directory_id=None))
    assert granted(single, without_directory)


# Pre-votes


def test_pre_vote_does_not_use_up_the_vote() -> None:
    single = Single(log=(1,))
    for candidate in (2, 3):
        assert granted(single, vote_request(candidate=candidate, epoch=1, end=(1, 1), pre_vote=True))
        assert not single.all(effects.PersistQuorumState)
    assert granted(single, vote_request(candidate=3, epoch=2, end=(1, 1)))


def test_pre_votes_with_a_live_leader_are_rejected() -> None:
    single = Single()
    single.follow(epoch=1)
    fetch = single.sent(messages.FetchRequest)[0][0]
    assert granted(single, vote_request(candidate=3, epoch=1, pre_vote=True))
    single.respond(fetch, fetched())
    assert not granted(single, vote_request(candidate=3, epoch=1, pre_vote=True))
    single.wait(2000)
    assert single.machine.role_name == "Prospective"
    assert granted(single, vote_request(candidate=3, epoch=1, pre_vote=True))


def test_leader_grants_no_pre_vote() -> None:
    leader = Single()
    leader.become_leader()
    assert not granted(leader, vote_request(epoch=1, end=(9, 1), pre_vote=True))
    for found in (state(3, leader=1), state(3, voted=1), state(3, voted=2), state(3)):
        single = Single(log=(2,), found=found)
        assert granted(single, vote_request(candidate=3, epoch=3, end=(1, 2), pre_vote=True)), found
        assert not granted(single, vote_request(candidate=3, epoch=3, end=(0, 0), pre_vote=True)), found


# BrokerControlState


def test_pre_votes_then_votes_then_leadership() -> None:
    single = Single(log=(1, 1))
    single.wait(1000)
    sent_votes = single.sent(messages.VoteRequest)
    assert [send.destination for send, _ in sent_votes] == [2, 3]
    assert {(request.pre_vote, request.replica_epoch, request.last_offset) for _, request in sent_votes} == {
        (True, 1, 2)
    }
    assert not single.all(effects.PersistQuorumState)
    single.respond(sent_votes[0][0], messages.VoteResponse(leader_epoch=1, vote_granted=True))
    assert single.machine.role_name == "Candidate"
    assert single.one(effects.PersistQuorumState).state == state(2, voted=1)
    sent_votes = single.sent(messages.VoteRequest)
    assert {(request.pre_vote, request.replica_epoch) for _, request in sent_votes} == {(False, 2)}
    assert single.is_before(effects.PersistQuorumState, effects.Send)
    single.respond(sent_votes[1][0], messages.VoteResponse(leader_epoch=2, vote_granted=True))
    assert single.machine.is_leader
    assert single.one(effects.PersistQuorumState).state.leader_id == 1
    assert single.is_before(effects.PersistQuorumState, effects.Append)
    assert single.is_before(effects.PersistQuorumState, effects.Send)


def test_duplicate_and_late_votes_count_once() -> None:
    single = Single(voters=(1, 2, 3, 4, 5))
    single.wait(1000)
    first = single.sent(messages.VoteRequest)[0][0]
    yes = messages.VoteResponse(leader_epoch=0, vote_granted=True)
    for _ in range(3):
        single.respond(first, yes)
    assert single.machine.role_name == "Prospective"


def test_lost_pre_vote_keeps_the_epoch() -> None:
    single = Single()
    single.wait(1000)
    for send, _ in single.sent(messages.VoteRequest):
        single.respond(send, messages.VoteResponse(leader_epoch=0))
    assert single.machine.role_name == "Unattached"
    assert single.machine.epoch == 0


def test_lost_pre_vote_returns_to_the_leader() -> None:
    single = Single()
    single.follow(leader_id=2, epoch=3)
    single.wait(2000)
    for send, _ in single.sent(messages.VoteRequest):
        single.respond(send, messages.VoteResponse(leader_id=2, leader_epoch=3))
    assert (single.machine.role_name, single.machine.leader_id) == ("Follower", 2)


def test_candidate_waits_for_the_timeout_before_the_next_election() -> None:
    single = Single()
    single.wait(1000)
    single.grant_all(pre_vote=True)
    for send, _ in single.sent(messages.VoteRequest):
        single.respond(send, messages.VoteResponse(leader_epoch=1))
    assert single.machine.role_name == "Candidate"
    single.wait(999)
    assert single.machine.role_name == "Candidate"
    single.wait(1)
    assert (single.machine.role_name, single.machine.epoch) == ("Prospective", 1)


def test_vote_requests_are_repeated_after_a_backoff() -> None:
    single = Single()
    single.wait(1000)
    send = single.sent(messages.VoteRequest)[0][0]
    single.step(events.RequestFailed(send.destination, send.correlation_id))
    assert not single.sent(messages.VoteRequest)
    single.wait(20)
    assert [one.destination for one, _ in single.sent(messages.VoteRequest)] == [send.destination]


def test_voter_without_pre_vote_support_causes_a_plain_election() -> None:
    single = Single()
    single.wait(1000)
    send = single.sent(messages.VoteRequest)[0][0]
    single.respond(send, messages.VoteResponse(error=ErrorCode.unsupported_version))
    assert (single.machine.role_name, single.machine.epoch) == ("Candidate", 1)


def test_response_with_a_higher_epoch_ends_the_candidacy() -> None:
    single = Single()
    single.wait(1000)
    send = single.sent(messages.VoteRequest)[0][0]
    single.respond(send, messages.VoteResponse(error=ErrorCode.fenced_leader_epoch, leader_epoch=9, leader_id=3))
    assert (single.machine.role_name, single.machine.epoch, single.machine.leader_id) == ("Follower", 9, 3)


def test_candidate_claims_only_synced_records() -> None:
    single = Single()
    single.follow(epoch=1)
    single.respond(single.sent(messages.FetchRequest)[0][0], fetched(batches=tuple(batches((1, 1)))))
    single.wait(2000)
    requests = [request for _, request in single.sent(messages.VoteRequest)]
    assert {(request.last_offset, request.last_offset_epoch) for request in requests} == {(0, 0)}

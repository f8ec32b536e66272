"""A leader whose port refuses connections."""

from dataclasses import replace

import pytest

from odradek.core.raft import effects, events, messages
from tests.raft.single import SETTINGS, FixedRandom, Single, fetched, vote_request

REFUSED = events.ConnectionRefused(2)


def follower(*, fast_detection: bool = True, share: float = 0.0) -> Single:
    settings = replace(SETTINGS, fast_detection=fast_detection)
    single = Single(settings=settings, random=FixedRandom(share))
    single.follow(leader_id=2, epoch=1)
    single.respond(single.sent(messages.FetchRequest)[0][0], fetched())
    return single


def grants(single: Single) -> bool:
    request = vote_request(candidate=3, epoch=1, pre_vote=True)
    return single.request(request, messages.VoteResponse).vote_granted


def test_refused_connection_starts_an_election_after_a_jitter() -> None:
    single = follower(share=0.5)
    single.step(REFUSED)
    assert single.machine.role_name == "Follower"
    single.wait(24)
    assert single.machine.role_name == "Follower"
    single.wait(1)
    assert single.machine.role_name == "Prospective"


def test_voter_grants_pre_votes_only_if_its_own_connection_is_refused() -> None:
    single = follower(share=0.5)
    assert not grants(single)
    single.step(events.ConnectionRefused(3))
    assert not grants(single)
    single.step(REFUSED)
    assert grants(single)
    single.step(events.ConnectionUp(2))
    assert not grants(single)
    single.wait(100)
    assert single.machine.role_name == "Follower"


def test_pre_votes_are_repeated_while_the_leader_refuses() -> None:
    single = follower()
    single.step(REFUSED)
    for _ in range(3):
        assert single.machine.role_name == "Prospective"
        for send, _ in single.sent(messages.VoteRequest):
            single.respond(send, messages.VoteResponse(leader_id=2, leader_epoch=1))
        assert (single.machine.role_name, single.machine.epoch) == ("Follower", 1)
        single.wait(19)
        assert single.machine.role_name == "Follower"
        single.wait(1)
    sent_votes = single.sent(messages.VoteRequest)
    single.step(events.ConnectionUp(2))
    for send, _ in sent_votes:
        single.respond(send, messages.VoteResponse(leader_id=2, leader_epoch=1))
    single.wait(100)
    assert single.machine.role_name == "Follower"


def test_split_vote_is_repeated_soon_when_the_leader_is_dead() -> None:
    single = follower()
    single.step(REFUSED)
    sends = [send for send, _ in single.sent(messages.VoteRequest) if send.destination == 3]
    single.respond(sends[0], messages.VoteResponse(leader_id=2, leader_epoch=1, vote_granted=True))
    assert (single.machine.role_name, single.machine.epoch) == ("Candidate", 2)
    sends = [send for send, _ in single.sent(messages.VoteRequest) if send.destination == 3]
    single.respond(sends[0], messages.VoteResponse(leader_epoch=2))
    assert single.one(effects.SetTimer).at_ms == single.now_ms + 20
    single.wait(20)
    assert (single.machine.role_name, single.machine.epoch) == ("Prospective", 2)


def test_disabled_detection_waits_for_the_fetch_timeout() -> None:
    single = follower(fast_detection=False)
    single.step(REFUSED)
    assert not grants(single)
    single.wait(1999)
    assert single.machine.role_name == "Follower"
    single.wait(1)
    assert single.machine.role_name == "Prospective"


@pytest.mark.parametrize("node_id", [1, 3, 99])
def test_refused_connections_to_other_nodes_do_not_matter(node_id: int) -> None:
    single = follower()
    single.step(events.ConnectionRefused(node_id))
    single.wait(100)
    assert single.machine.role_name == "Follower"

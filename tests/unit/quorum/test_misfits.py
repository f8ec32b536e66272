"""What a log says of nodes that do not fit: the reason, once, and on both sides."""

import asyncio
import logging
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.config.listeners import Address
from odradek.core.raft.messages import FetchRequest, VoteRequest
from odradek.core.raft.voter_set import ReplicaKey
from odradek.quorum import misfits
from odradek.quorum.misfits import TOLD_MAX, LeaderlessWatch, Misfits
from odradek.records.control import LeaderChangeV0, VoterById


@pytest.fixture
def quorum() -> Misfits:
    return Misfits(1, "ours", (1, 2, 3))


@pytest.fixture(autouse=True)
def heard(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


def vote_request(node_id: int, cluster_id: str = "ours") -> VoteRequest:
    return VoteRequest(
        cluster_id=cluster_id,
        voter=ReplicaKey(1, None),
        replica=ReplicaKey(node_id, UUID(int=node_id)),
        replica_epoch=1,
        last_offset=0,
        last_offset_epoch=0,
        pre_vote=True,
    )


def fetch_request(node_id: int, cluster_id: str = "ours") -> FetchRequest:
    return FetchRequest(
        cluster_id=cluster_id,
        replica=ReplicaKey(node_id, UUID(int=node_id + 1)),
        current_leader_epoch=1,
        fetch_offset=0,
        last_fetched_epoch=0,
        high_watermark=0,
        max_bytes=1,
        max_wait_ms=0,
    )


def leader_change(*voter_ids: int) -> LeaderChangeV0:
    voters = tuple(VoterById(voter_id=voter_id) for voter_id in voter_ids)
    return LeaderChangeV0(leader_id=2, voters=voters, granting_voters=voters)


def test_another_cluster_is_told_once(quorum: Misfits, heard: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        quorum.asked(fetch_request(7, "theirs"), ErrorCode.inconsistent_cluster_id)
    assert [record.message for record in heard.records] == [
        "node 7 is refused: it is of cluster theirs, and this node of ours"
    ]
    assert quorum.own_fault == ""


def test_who_is_refused_for_its_cluster_knows_it(quorum: Misfits, heard: pytest.LogCaptureFixture) -> None:
    quorum.refused_by(2, Address("elsewhere", 9093), ErrorCode.inconsistent_cluster_id)
    assert "node 2 at elsewhere:9093 is of another cluster" in heard.text
    assert quorum.own_fault.startswith("node 2 at elsewhere:9093")


def test_of_a_bootstrap_server_only_the_address_is_known(quorum: Misfits, heard: pytest.LogCaptureFixture) -> None:
    quorum.refused_by(-2, Address("elsewhere", 9093), ErrorCode.inconsistent_cluster_id)
    assert "the node at elsewhere:9093" in heard.text


def test_a_number_that_is_taken(quorum: Misfits, heard: pytest.LogCaptureFixture) -> None:
    quorum.asked(fetch_request(1), ErrorCode.invalid_request)
    assert "another node calls itself node 1" in heard.text


def test_who_wants_votes_must_be_a_voter(quorum: Misfits, heard: pytest.LogCaptureFixture) -> None:
    quorum.asked(vote_request(3), ErrorCode.none)
    assert not heard.records
    quorum.asked(vote_request(9), ErrorCode.none)
    assert "node 9 is a controller and not one of the voters 1, 2, 3" in heard.text


def test_observers_are_welcome(quorum: Misfits, heard: pytest.LogCaptureFixture) -> None:
    quorum.asked(fetch_request(7), ErrorCode.none)
    quorum.asked(fetch_request(-1), ErrorCode.invalid_request)
    assert not heard.records


def test_a_leader_of_other_voters(quorum: Misfits, heard: pytest.LogCaptureFixture) -> None:
    quorum.committed([leader_change(3, 2, 1)])
    assert not heard.records
    quorum.committed([leader_change(1, 2)])
    assert "leader 2's voters are 1, 2, and controller.quorum.voters names 1, 2, 3 here" in heard.text


def test_where_voters_are_in_the_log_none_are_configured(heard: pytest.LogCaptureFixture) -> None:
    quorum = Misfits(1, "ours", ())
    quorum.committed([leader_change(1, 2)])
    quorum.asked(vote_request(9), ErrorCode.none)
    assert not heard.records


def test_nobody_fills_the_log(quorum: Misfits, heard: pytest.LogCaptureFixture) -> None:
    for number in range(2 * TOLD_MAX):
        quorum.asked(fetch_request(7, f"cluster-{number}"), ErrorCode.inconsistent_cluster_id)
    assert len(heard.records) == TOLD_MAX


def test_the_silence_of_a_node_without_leader(monkeypatch: pytest.MonkeyPatch, heard: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(misfits, "LEADERLESS_SECONDS", 0.02)
    is_led = False

    async def wait_for_a_leader() -> None:
        nonlocal is_led
        watch = LeaderlessWatch(lambda: is_led, lambda: ["2 at host:9093"])
        watch.look()
        watch.look()
        await asyncio.sleep(0.05)
        told = len(heard.records)
        assert 1 <= told <= 3
        assert "not reached from here: 2 at host:9093" in heard.text
        is_led = True
        watch.look()
        await asyncio.sleep(0.1)
        assert len(heard.records) == told

    asyncio.run(wait_for_a_leader())


def test_a_node_that_asks_itself_for_the_leader_is_no_other(heard: pytest.LogCaptureFixture) -> None:
    """As it does where the addresses that it was given include its own."""
    quorum = Misfits(1, "ours", (), UUID(int=2))
    quorum.asked(fetch_request(1), ErrorCode.invalid_request)
    assert not heard.records
    quorum.asked(vote_request(1), ErrorCode.invalid_request)
    assert "another node calls itself node 1" in heard.text

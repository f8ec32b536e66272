"""What a log says of nodes that do not fit: the reason, once, and on both sides."""

import asyncio
import logging
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.config.listeners import Address
from odradek.core.raft.messages import FetchRequest, VoteRequest
from odradek.core.raft.voter_set import ReplicaKey
from odradek.quorum import misconfiguration
from odradek.quorum.misconfiguration import WARNINGS_MAX, MisconfigurationLog, NoLeaderWarning
from odradek.records.control import LeaderChangeV0, VoterById


@pytest.fixture
def quorum() -> MisconfigurationLog:
    return MisconfigurationLog(1, "ours", (1, 2, 3))


@pytest.fixture(autouse=True)
def caplog_of_quorum(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
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


def test_node_of_another_cluster_is_logged_once(quorum: MisconfigurationLog, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        quorum.on_request(fetch_request(7, "theirs"), ErrorCode.inconsistent_cluster_id)
    assert [record.message for record in caplog.records] == ["Rejected node 7: its cluster ID is theirs, not ours"]
    assert quorum.own_problem == ""


def test_rejection_by_another_cluster_is_logged(quorum: MisconfigurationLog, caplog: pytest.LogCaptureFixture) -> None:
    quorum.on_response(2, Address("elsewhere", 9093), ErrorCode.inconsistent_cluster_id)
    assert "node 2 at elsewhere:9093 belongs to another cluster" in caplog.text
    assert quorum.own_problem.startswith("node 2 at elsewhere:9093")


def test_bootstrap_server_is_logged_by_its_address(
    quorum: MisconfigurationLog, caplog: pytest.LogCaptureFixture
) -> None:
    quorum.on_response(-2, Address("elsewhere", 9093), ErrorCode.inconsistent_cluster_id)
    assert "the node at elsewhere:9093" in caplog.text


def test_duplicate_node_id_is_logged(quorum: MisconfigurationLog, caplog: pytest.LogCaptureFixture) -> None:
    quorum.on_request(fetch_request(1), ErrorCode.invalid_request)
    assert "Rejected another node with node.id=1" in caplog.text


def test_vote_request_of_a_controller_that_is_no_voter_is_logged(
    quorum: MisconfigurationLog, caplog: pytest.LogCaptureFixture
) -> None:
    quorum.on_request(vote_request(3), ErrorCode.none)
    assert not caplog.records
    quorum.on_request(vote_request(9), ErrorCode.none)
    assert "Controller 9 is not one of the voters 1, 2, 3" in caplog.text


def test_observers_are_not_logged(quorum: MisconfigurationLog, caplog: pytest.LogCaptureFixture) -> None:
    quorum.on_request(fetch_request(7), ErrorCode.none)
    quorum.on_request(fetch_request(-1), ErrorCode.invalid_request)
    assert not caplog.records


def test_leader_with_other_voters_is_logged(quorum: MisconfigurationLog, caplog: pytest.LogCaptureFixture) -> None:
    quorum.on_control([leader_change(3, 2, 1)])
    assert not caplog.records
    quorum.on_control([leader_change(1, 2)])
    assert "Leader 2 has the voters 1, 2, and controller.quorum.voters of this node has 1, 2, 3." in caplog.text


def test_dynamic_voters_need_no_configured_voters(caplog: pytest.LogCaptureFixture) -> None:
    quorum = MisconfigurationLog(1, "ours", ())
    quorum.on_control([leader_change(1, 2)])
    quorum.on_request(vote_request(9), ErrorCode.none)
    assert not caplog.records


def test_number_of_warnings_is_limited(quorum: MisconfigurationLog, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(2 * WARNINGS_MAX):
        quorum.on_request(fetch_request(7, f"cluster-{number}"), ErrorCode.inconsistent_cluster_id)
    assert len(caplog.records) == WARNINGS_MAX


def test_missing_leader_is_logged_with_unreachable_nodes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(misconfiguration, "LEADERLESS_SECONDS", 0.02)
    has_leader = False

    async def wait_for_a_leader() -> None:
        nonlocal has_leader
        watch = NoLeaderWarning(lambda: has_leader, lambda: ["2 at host:9093"])
        watch.on_leader_change()
        watch.on_leader_change()
        await asyncio.sleep(0.05)
        count = len(caplog.records)
        assert 1 <= count <= 3
        assert "unreachable=2 at host:9093" in caplog.text
        has_leader = True
        watch.on_leader_change()
        await asyncio.sleep(0.1)
        assert len(caplog.records) == count

    asyncio.run(wait_for_a_leader())


def test_missing_leader_of_a_secured_quorum_may_need_super_users(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(misconfiguration, "LEADERLESS_SECONDS", 0.01)

    async def wait_for_a_leader() -> None:
        watch = NoLeaderWarning(lambda: False, list, has_authorizer=True)
        watch.on_leader_change()
        await asyncio.sleep(0.05)
        watch.stop()

    asyncio.run(wait_for_a_leader())
    assert "unreachable=none" in caplog.text
    assert "Their principals must be in super.users." in caplog.text


def test_denied_requests_name_the_permission(quorum: MisconfigurationLog, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        quorum.on_response(2, Address("host", 9093), ErrorCode.cluster_authorization_failed)
    (record,) = caplog.records
    assert record.getMessage() == (
        "Rejected: node 2 at host:9093 denies the requests of this node: its principal needs CLUSTER_ACTION on the "
        "cluster. Add it to super.users of every controller."
    )
    assert quorum.own_problem


def test_own_requests_are_not_a_duplicate_node_id(caplog: pytest.LogCaptureFixture) -> None:
    """As it does where the addresses that it was given include its own."""
    quorum = MisconfigurationLog(1, "ours", (), UUID(int=2))
    quorum.on_request(fetch_request(1), ErrorCode.invalid_request)
    assert not caplog.records
    quorum.on_request(vote_request(1), ErrorCode.invalid_request)
    assert "Rejected another node with node.id=1" in caplog.text

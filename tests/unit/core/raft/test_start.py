"""The first role after a start follows from what was durable."""

import pytest

from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft import effects, messages
from odradek.core.raft.quorum_state import QuorumState
from tests.raft.single import Single, state


@pytest.mark.parametrize(
    ("found", "role", "leader_id"),
    [
        (state(0), "Unattached", None),
        (state(5), "Unattached", None),
        (state(5, voted=2), "Unattached", None),
        (state(5, voted=1), "Candidate", None),
        (state(5, leader=2), "Follower", 2),
        (state(5, leader=2, voted=3), "Follower", 2),
        (state(5, leader=2, voted=1), "Follower", 2),
        (state(5, leader=9), "Unattached", 9),
        (state(5, leader=1), "Resigned", 1),
    ],
)
def test_first_role_follows_from_the_quorum_state(found: QuorumState, role: str, leader_id: int | None) -> None:
    single = Single(found=found)
    assert (single.machine.role_name, single.machine.epoch) == (role, found.leader_epoch)
    assert single.machine.leader_id == leader_id
    assert not single.all(effects.PersistQuorumState)


def test_newer_log_epoch_overrides_the_quorum_state() -> None:
    single = Single(log=(3, 7), found=state(5, voted=2))
    assert (single.machine.role_name, single.machine.epoch) == ("Unattached", 7)
    assert single.one(effects.PersistQuorumState).state == QuorumState(leader_epoch=7)


@pytest.mark.parametrize("found", [state(0), state(4), state(4, voted=1), state(4, leader=1), state(4, voted=2)])
def test_the_only_voter_leads_at_once(found: QuorumState) -> None:
    single = Single(voters=(1,), found=found)
    assert single.machine.is_leader
    # Never twice in one epoch: what it wrote as leader may be lost. As candidate it had written nothing.
    assert single.machine.epoch == (found.leader_epoch if found.voted_id == 1 else found.leader_epoch + 1)
    single.sync()
    assert single.one(effects.HighWatermarkAdvanced).offset == 1


def test_former_candidate_continues_in_the_same_epoch() -> None:
    single = Single(found=state(5, voted=1))
    requests = [request for _, request in single.sent(messages.VoteRequest)]
    assert {(request.replica_epoch, request.pre_vote) for request in requests} == {(5, False)}


def test_former_leader_resigns_after_a_restart() -> None:
    single = Single(found=state(5, leader=1))
    ended = single.sent(messages.EndQuorumEpochRequest)
    assert [send.destination for send, _ in ended] == [2, 3]
    assert not single.all(effects.BecameLeader)
    single.wait(1000)
    assert (single.machine.role_name, single.machine.epoch) == ("Prospective", 6)


def test_observer_never_starts_an_election() -> None:
    single = Single(voters=(2, 3))
    fetches = single.sent(messages.FetchRequest)
    assert [send.destination for send, _ in fetches] == [2]
    single.wait(100_000)
    assert (single.machine.role_name, single.machine.epoch) == ("Unattached", 0)


def test_snapshot_is_committed() -> None:
    assert Single(snapshot=SnapshotId(10, 2), log=(2, 3)).machine.high_watermark == 10

from dataclasses import replace

from odradek.sim.checkers.agreement import disagreement
from odradek.sim.checkers.quorum import (
    EPOCH_GROWS,
    LOG_SYNCED,
    ONE_LEADER,
    ONE_VOTE,
    SAME_LOG,
    SAME_SNAPSHOT,
    VOTE_SYNCED,
    check_quorum,
)
from odradek.sim.history import Acknowledgement, ClusterView, History, LogBatch, MetadataCopy, QuorumState, Vote


def state(epoch: int, *, leader: int = -1, voted: int = -1, node: str = "node1") -> QuorumState:
    return QuorumState(node=node, seconds=1.0, epoch=epoch, leader_id=leader, voted_id=voted)


def vote(candidate: int, epoch: int, kept: QuorumState | None) -> Vote:
    return Vote(voter="node1", candidate_id=candidate, epoch=epoch, seconds=1.0, durable=kept)


def copy(node: str, *batches: LogBatch, snapshots: dict[tuple[int, int], int] | None = None) -> MetadataCopy:
    return MetadataCopy(node=node, seconds=1.0, batches=batches, snapshots=snapshots or {})


def batch(base_offset: int, epoch: int = 1, *, digest: int = 7, leader: int | None = None) -> LogBatch:
    return LogBatch(base_offset, base_offset, epoch, digest, leader)


def broken(*found: QuorumState | Vote | Acknowledgement | MetadataCopy, is_whole: bool = True) -> set[str]:
    history = History()
    for one in found:
        if isinstance(one, QuorumState):
            history.quorum_states.append(one)
        elif isinstance(one, Vote):
            history.votes.append(one)
        elif isinstance(one, Acknowledgement):
            history.acknowledgements.append(one)
        else:
            history.metadata_copies.append(one)
    return {violation.rule for violation in check_quorum(history, is_whole=is_whole)}


def test_a_node_votes_once_per_epoch_whatever_it_forgot() -> None:
    assert not broken(state(1, voted=2), state(1, leader=2), state(2, voted=3))
    assert broken(state(1, voted=2), state(1), state(1, voted=3)) == {ONE_VOTE}
    assert not broken(state(1, voted=2), state(1, voted=3, node="node2"))
    first, second = vote(2, 5, state(5, voted=2)), vote(3, 5, state(5, voted=3))
    assert not broken(first, first)
    assert broken(first, second) == {ONE_VOTE}


def test_a_vote_is_on_the_disk_when_it_is_given() -> None:
    assert broken(vote(2, 5, None)) == {VOTE_SYNCED}
    assert broken(vote(2, 5, state(4, voted=2))) == {VOTE_SYNCED}
    assert broken(vote(2, 5, state(5))) == {VOTE_SYNCED}
    assert not broken(vote(2, 5, state(6)))


def test_epochs_do_not_go_back() -> None:
    assert broken(state(3), state(2)) == {EPOCH_GROWS}
    assert broken(copy("node1", batch(0, 2), batch(1, 1))) == {EPOCH_GROWS}


def test_an_epoch_has_one_leader_in_every_log_at_every_time() -> None:
    ones, twos = copy("node1", batch(0, leader=1)), copy("node2", batch(0, leader=2))
    assert broken(ones, twos, is_whole=False) == {ONE_LEADER}
    # Also where the log has been mended since.
    assert broken(twos, replace(ones, node="node2"), is_whole=False) == {ONE_LEADER}
    assert broken(ones, state(1, leader=3)) == {ONE_LEADER}
    assert not broken(ones, state(1, leader=1), state(2, leader=2))


def test_what_is_acknowledged_is_synced() -> None:
    safe = Acknowledgement(voter="node1", offset=5, durable_end_offset=5, seconds=1.0)
    assert not broken(safe)
    assert broken(replace(safe, offset=6)) == {LOG_SYNCED}


def test_logs_agree_once_healed() -> None:
    short, long = copy("node1", batch(0), batch(1)), copy("node2", batch(1), batch(2))
    assert not broken(short, long)
    assert broken(short, copy("node2", batch(1, digest=8))) == {SAME_LOG}
    assert not broken(short, copy("node2", batch(1, digest=8)), is_whole=False)
    # Only the last look counts: what diverged has been cut.
    assert not broken(copy("node2", batch(1, digest=8)), short, long)
    assert broken(copy("node1", batch(0), batch(2))) == {SAME_LOG}


def test_snapshots_of_one_offset_hold_the_same() -> None:
    ones, twos = copy("node1", snapshots={(5, 1): 9}), copy("node2", snapshots={(5, 1): 9})
    assert not broken(ones, twos)
    assert broken(ones, replace(twos, snapshots={(5, 1): 8})) == {SAME_SNAPSHOT}
    assert not broken(ones, replace(twos, snapshots={(6, 1): 8}))


def test_brokers_know_each_other_and_say_the_same() -> None:
    facts = {"broker 1": "node1:9092", "broker 2": "node2:9092", "topic t": "x"}
    one, two = (ClusterView(broker=name, seconds=1.0, facts=facts) for name in ("node1", "node2"))
    assert disagreement([one, two], [1, 2]) is None
    assert disagreement([one, two], [1, 2, 3]) == "node1 does not know broker 3"
    other = replace(two, facts=facts | {"topic t": "y"})
    assert disagreement([one, other], [1, 2]) == "topic t: x at node1, y at node2"

from dataclasses import replace
from math import inf

from odradek.sim.checkers.agreement import disagreement
from odradek.sim.checkers.brokers import FENCED, HOST_FENCED, NOT_EARLY, NOT_REPLACED, OWN_EPOCH, STALE_EPOCH
from odradek.sim.checkers.commits import NEVER_BACK, ON_A_MAJORITY, PROGRESS, RESIGNS, SAME_ON_ALL, STAYS
from odradek.sim.checkers.commits import OWN_EPOCH as COUNTED_OWN_EPOCH
from odradek.sim.checkers.elections import (
    CLAIM_SYNCED,
    LOG_FRESH,
    NO_HELP,
    NOT_DEPOSED,
    ONE_LEADER,
    ONE_VOTE,
    PAST_EPOCH,
    PRE_VOTES,
    VOTE_SYNCED,
)
from odradek.sim.checkers.quorum import EPOCH_GROWS, LOG_SYNCED, SAME_SNAPSHOT, check_quorum
from odradek.sim.history import ClusterView
from odradek.sim.quorum_history import (
    Acknowledgement,
    Appended,
    BrokerChange,
    Candidacy,
    CommittedBatch,
    DiskSeen,
    Disturbance,
    Heartbeat,
    HighWatermarkSent,
    HostCrash,
    Listening,
    LogBatch,
    LogEnd,
    MetadataCopy,
    QuorumHistory,
    QuorumSettings,
    QuorumState,
    RegistrationSent,
    ShutdownRequested,
    Vote,
    VoterServed,
)

NODES = frozenset({"node1", "node2", "node3"})
SETTINGS = QuorumSettings(
    node_ids={"node1": 1, "node2": 2, "node3": 3},
    voters=NODES,
    broker_ports=dict.fromkeys(NODES, 9092),
    fetch_timeout_seconds=1.0,
    election_timeout_seconds=1.0,
    session_seconds=2.0,
    grace_seconds=0.3,
    idle_seconds=0.5,
)


def state(epoch: int, *, leader: int = -1, voted: int = -1, node: str = "node1") -> QuorumState:
    return QuorumState(node=node, seconds=1.0, epoch=epoch, leader_id=leader, voted_id=voted)


def vote(candidate: int, epoch: int, kept: QuorumState | None) -> Vote:
    return Vote(
        voter="node1",
        voter_id=1,
        candidate_id=candidate,
        epoch=epoch,
        voter_epoch=epoch,
        seconds=1.0,
        is_pre_vote=False,
        claimed_end=LogEnd(1, 5),
        durable_end=LogEnd(1, 5),
        durable=kept,
    )


def pre_vote(candidate: int, epoch: int, *, voter: int = 1, seconds: float = 1.0) -> Vote:
    given = replace(vote(candidate, epoch, None), is_pre_vote=True, seconds=seconds)
    return replace(given, voter=f"node{voter}", voter_id=voter)


def candidacy(candidate: int, epoch: int, seconds: float = 1.0) -> Candidacy:
    node = f"node{candidate}"
    return Candidacy(
        candidate=node,
        candidate_id=candidate,
        epoch=epoch,
        seconds=seconds,
        is_pre_vote=False,
        claimed_end=LogEnd(1, 0),
        durable=state(epoch, voted=candidate, node=node),
        durable_end=LogEnd(1, 0),
    )


def copy(node: str, *batches: LogBatch, snapshots: dict[tuple[int, int], int] | None = None) -> MetadataCopy:
    return MetadataCopy(node=node, seconds=1.0, batches=batches, snapshots=snapshots or {})


def batch(base_offset: int, epoch: int = 1, *, digest: int = 7, leader: int | None = None) -> LogBatch:
    return LogBatch(base_offset, base_offset, epoch, digest, leader)


LISTS = {
    QuorumState: "states",
    Vote: "votes",
    Candidacy: "candidacies",
    Acknowledgement: "acknowledgements",
    MetadataCopy: "copies",
    DiskSeen: "disks",
    HighWatermarkSent: "high_watermarks",
    Appended: "appended",
    VoterServed: "served",
    CommittedBatch: "committed",
    Heartbeat: "heartbeats",
    RegistrationSent: "registrations",
    ShutdownRequested: "shutdown_requests",
    Listening: "listening",
    HostCrash: "host_crashes",
    Disturbance: "disturbances",
}


def broken(*found: object, is_whole: bool = True, ended_seconds: float = 1.0) -> set[str]:
    history = QuorumHistory()
    for one in found:
        getattr(history, LISTS[type(one)]).append(one)
    violations = check_quorum(history, SETTINGS, ended_seconds=ended_seconds, is_whole=is_whole)
    return {violation.rule for violation in violations}


def test_two_votes_of_a_node_in_one_epoch_are_a_violation() -> None:
    assert not broken(state(1, voted=2), state(1, leader=2), state(2, voted=3))
    assert broken(state(1, voted=2), state(1), state(1, voted=3)) == {ONE_VOTE}
    assert not broken(state(1, voted=2), state(1, voted=3, node="node2"))
    first, second = vote(2, 5, state(5, voted=2)), vote(3, 5, state(5, voted=3))
    assert not broken(first, first)
    assert broken(first, second) == {ONE_VOTE}


def test_a_vote_must_be_durable_before_it_is_sent() -> None:
    assert broken(vote(2, 5, None)) == {VOTE_SYNCED}
    assert broken(vote(2, 5, state(4, voted=2))) == {VOTE_SYNCED}
    assert broken(vote(2, 5, state(5))) == {VOTE_SYNCED}
    assert not broken(vote(2, 5, state(6)))


def test_epochs_never_decrease() -> None:
    assert broken(state(3), state(2)) == {EPOCH_GROWS}
    assert broken(copy("node1", batch(0, 2), batch(1, 1))) == {EPOCH_GROWS}


def test_an_epoch_has_one_leader_in_every_log_at_every_time() -> None:
    ones, twos = copy("node1", batch(0, leader=1)), copy("node2", batch(0, leader=2))
    assert broken(ones, twos, is_whole=False) == {ONE_LEADER}
    # Also where the log has been repaired since.
    assert broken(twos, replace(ones, node="node2"), is_whole=False) == {ONE_LEADER}
    assert broken(ones, state(1, leader=3)) == {ONE_LEADER}
    assert not broken(ones, state(1, leader=1), state(2, leader=2))


def test_acknowledged_metadata_must_be_synced() -> None:
    safe = Acknowledgement(voter="node1", epoch=1, offset=5, durable_epoch=1, durable_end_offset=5, seconds=1.0)
    assert not broken(safe)
    assert broken(replace(safe, offset=6)) == {LOG_SYNCED}
    # A late fetch of a log that was truncated in a later epoch.
    assert not broken(replace(safe, offset=6, durable_epoch=2))


def test_logs_agree_after_the_faults() -> None:
    short, long = copy("node1", batch(0), batch(1)), copy("node2", batch(1), batch(2))
    assert not broken(short, long)
    assert broken(short, copy("node2", batch(1, digest=8))) == {SAME_ON_ALL}
    assert not broken(short, copy("node2", batch(1, digest=8)), is_whole=False)
    # Only the last copy counts: diverging records have been truncated.
    assert not broken(copy("node2", batch(1, digest=8)), short, long)
    assert broken(copy("node1", batch(0), batch(2))) == {SAME_ON_ALL}


def test_snapshots_of_one_offset_are_equal() -> None:
    ones, twos = copy("node1", snapshots={(5, 1): 9}), copy("node2", snapshots={(5, 1): 9})
    assert not broken(ones, twos)
    assert broken(ones, replace(twos, snapshots={(5, 1): 8})) == {SAME_SNAPSHOT}
    assert not broken(ones, replace(twos, snapshots={(6, 1): 8}))


def test_all_brokers_must_describe_the_same_cluster() -> None:
    facts = {"broker 1": "node1:9092", "broker 2": "node2:9092", "topic t": "x"}
    one, two = (ClusterView(broker=name, facts=facts) for name in ("node1", "node2"))
    assert disagreement([one, two], [1, 2]) is None
    assert disagreement([one, two], [1, 2, 3]) == "node1 does not know broker 3"
    other = replace(two, facts=facts | {"topic t": "y"})
    assert disagreement([one, other], [1, 2]) == "topic t: x at node1, y at node2"


# ---- elections


def test_a_candidate_has_voted_for_itself() -> None:
    granted = pre_vote(2, 4, voter=3)
    assert not broken(granted, candidacy(2, 5))
    assert broken(granted, candidacy(2, 5), replace(vote(3, 5, state(5, voted=3)), voter="node2")) == {ONE_VOTE}


def test_an_epoch_needs_the_votes_of_a_majority() -> None:
    assert broken(candidacy(2, 5)) == {PRE_VOTES}
    assert broken(pre_vote(2, 3), candidacy(2, 5)) == {PRE_VOTES}
    assert broken(pre_vote(3, 4), candidacy(2, 5)) == {PRE_VOTES}


def test_votes_are_for_the_current_epoch_and_for_no_shorter_log() -> None:
    sound = vote(2, 5, state(5, voted=2))
    assert broken(replace(sound, voter_epoch=6)) == {PAST_EPOCH}
    assert broken(replace(sound, claimed_end=LogEnd(1, 4))) == {LOG_FRESH}
    assert not broken(replace(sound, claimed_end=LogEnd(2, 1)))


def test_a_candidate_must_have_the_log_end_it_claims() -> None:
    claim = replace(candidacy(2, 5), claimed_end=LogEnd(1, 7))
    assert broken(pre_vote(2, 4), claim) == {CLAIM_SYNCED}
    assert not broken(pre_vote(2, 4), claim, DiskSeen(node="node2", seconds=0.5, end_offset=7))


def leads(node: int, epoch: int, seconds: float) -> Appended:
    return Appended(node=f"node{node}", batch=batch(0, epoch, leader=node), seconds=seconds)


def test_a_leader_with_a_majority_is_not_deposed() -> None:
    deposing = (pre_vote(3, 1, seconds=8.9), leads(1, 1, 1.0), candidacy(3, 2, 9.0))
    disturbance = Disturbance(one="node1", other="node3", began=7.0, ended=9.5)
    assert NOT_DEPOSED in broken(disturbance, *deposing)
    assert NOT_DEPOSED not in broken(disturbance, replace(disturbance, other="node2"), *deposing)
    # Long enough ago for all nodes to be connected again.
    assert NOT_DEPOSED in broken(disturbance, replace(disturbance, other="node2", began=2.0, ended=4.9), *deposing)


def test_a_follower_of_a_live_leader_grants_no_pre_vote() -> None:
    served = VoterServed(leader="node1", epoch=1, voter="node2", seconds=5.0)
    fetches = (served, replace(served, seconds=5.3))
    assert broken(*fetches, pre_vote(3, 1, voter=2, seconds=5.5)) == {NO_HELP}
    assert not broken(*fetches, pre_vote(3, 1, voter=2, seconds=6.5))
    disturbance = Disturbance(one="node1", other="node2", began=5.1, ended=5.2)
    assert not broken(disturbance, *fetches, pre_vote(3, 1, voter=2, seconds=5.5))


# ---- commits


def sent(offset: int, *holders: str, epoch: int = 1, seconds: float = 1.0) -> HighWatermarkSent:
    return HighWatermarkSent(
        leader="node1",
        listener="node2",
        epoch=epoch,
        offset=offset,
        seconds=seconds,
        voters=NODES,
        former_voters=NODES,
        holders={name: batch(offset - 1) for name in holders},
        covering=frozenset(),
        snapshot_end=0,
        is_snapshot_held=True,
    )


def test_committed_records_are_on_a_majority_and_of_the_leaders_epoch() -> None:
    assert not broken(sent(5, "node1", "node2"))
    assert broken(sent(5, "node1")) == {ON_A_MAJORITY}
    assert broken(sent(5, "node1", "node2", epoch=2)) == {COUNTED_OWN_EPOCH}
    ahead = replace(sent(5, "node1", "node2"), snapshot_end=6)
    assert not broken(ahead)
    assert broken(replace(ahead, is_snapshot_held=False)) == {SAME_SNAPSHOT}


def test_high_watermark_never_decreases() -> None:
    first, later = sent(5, "node1", "node2"), sent(7, "node1", "node2", seconds=2.0)
    assert not broken(first, later)
    again = replace(first, seconds=3.0)
    assert broken(later, again) == {NEVER_BACK}
    # Responses to two nodes overtake each other.
    assert not broken(later, replace(again, listener="node3"))


def test_committed_records_stay() -> None:
    assert not broken(sent(5, "node1", "node2"), DiskSeen(node="node3", seconds=2.0, end_offset=4))
    assert broken(sent(5, "node1", "node2"), DiskSeen(node="node2", seconds=2.0, end_offset=4)) == {STAYS}


def test_a_different_batch_at_the_same_offset_does_not_count() -> None:
    """Voters change, and the last one of another epoch ends at the same offset."""
    other = batch(4, epoch=0)
    held = replace(sent(5, "node1", "node2"), voters=frozenset({"node1", "node3"}))
    held = replace(held, holders={**held.holders, "node3": other})
    assert not broken(held, DiskSeen(node="node3", seconds=2.0, end_offset=3))
    assert broken(replace(held, former_voters=held.voters)) == {ON_A_MAJORITY}


def test_a_leader_without_a_majority_writes_nothing() -> None:
    late = Appended(node="node1", batch=batch(1), seconds=5.0)
    assert broken(leads(1, 1, 1.0), late) == {RESIGNS}
    assert not broken(leads(1, 1, 1.0), VoterServed(leader="node1", epoch=1, voter="node3", seconds=3.0), late)


def test_a_healthy_majority_makes_progress() -> None:
    steady = [sent(offset, "node1", "node2", seconds=offset) for offset in range(1, 10)]
    assert not broken(*steady, ended_seconds=20.0)
    assert broken(*steady, ended_seconds=30.0) == {PROGRESS}
    gone = [Disturbance(one=name, other=name, began=10.0, ended=inf) for name in ("node1", "node2")]
    assert not broken(*steady, *gone, ended_seconds=30.0)


# ---- brokers


def committed(offset: int, seconds: float, *changes: BrokerChange) -> CommittedBatch:
    return CommittedBatch(
        batch=batch(offset),
        leader="node1",
        appended_seconds=seconds,
        seen_seconds=seconds,
        committed_in=1,
        brokers=changes,
    )


def beat(seconds: float, *, epoch: int = 5, leaves: bool = False) -> Heartbeat:
    return Heartbeat(
        broker_id=2,
        broker_epoch=epoch,
        controller="node1",
        sent_seconds=seconds - 0.01,
        responded_seconds=seconds,
        wants_to_leave=leaves,
    )


REGISTERED = committed(5, 1.0, BrokerChange(broker_id=2, broker_epoch=5, incarnation="a", is_fenced=True))
UNFENCED = committed(6, 1.5, BrokerChange(broker_id=2, broker_epoch=5, is_fenced=False))
SERVES = Listening(node="node2", port=9092, seconds=0.5, is_open=True)


def fenced(seconds: float) -> CommittedBatch:
    return committed(7, seconds, BrokerChange(broker_id=2, broker_epoch=5, is_fenced=True))


def test_a_reachable_broker_is_not_fenced_early() -> None:
    begin = (leads(1, 1, 0.1), REGISTERED, UNFENCED, SERVES)
    assert broken(*begin, beat(3.0), fenced(4.0), is_whole=False) == {NOT_EARLY}
    assert not broken(*begin, beat(3.0), fenced(5.0), is_whole=False)
    late_response = replace(beat(3.0), responded_seconds=3.9)
    assert not broken(*begin, late_response, fenced(5.0), is_whole=False)
    assert not broken(*begin, beat(3.0, leaves=True), fenced(4.0), is_whole=False)
    shut = replace(SERVES, seconds=3.5, is_open=False)
    assert not broken(*begin, shut, beat(3.0), fenced(4.0), is_whole=False)
    # It requested a controlled shutdown and died before the response.
    for epoch, seconds, expected in ((5, 3.9, set()), (5, 4.1, {NOT_EARLY}), (4, 3.9, {NOT_EARLY})):
        shutdown_request = ShutdownRequested(broker_id=2, broker_epoch=epoch, seconds=seconds)
        assert broken(*begin, beat(3.0), shutdown_request, fenced(4.0), is_whole=False) == expected


def test_brokers_of_a_dead_host_are_fenced_at_once() -> None:
    begin = (leads(1, 1, 0.1), REGISTERED, UNFENCED, SERVES, replace(SERVES, seconds=5.0, is_open=False))
    crash = HostCrash(nodes=("node2",), seconds=5.0, restarted_seconds=9.0)
    assert broken(*begin, crash, is_whole=False) == {HOST_FENCED}
    assert not broken(*begin, crash, fenced(5.4), is_whole=False)
    assert broken(*begin, crash, fenced(5.7), is_whole=False) == {HOST_FENCED}
    assert not broken(*begin, replace(crash, restarted_seconds=5.3), is_whole=False)
    # Brokers that were fenced early still count.
    earlier = HostCrash(nodes=("node3",), seconds=4.0, restarted_seconds=4.1)
    assert not broken(*begin, earlier, crash, is_whole=False)


def test_a_running_broker_is_not_replaced_by_a_clone() -> None:
    clone = BrokerChange(broker_id=2, broker_epoch=8, incarnation="b", is_fenced=True)
    begin = (leads(1, 1, 0.1), REGISTERED, UNFENCED, SERVES)
    history = (*begin, committed(8, 4.0, clone))
    request = RegistrationSent(host="node2-clone", broker_id=2, incarnation="b", seconds=3.9)
    assert broken(*history, request, is_whole=False) == {NOT_REPLACED}
    assert not broken(*history, replace(request, host="node2"), is_whole=False)
    assert not broken(*history, request, replace(SERVES, seconds=3.99, is_open=False), is_whole=False)
    leaving = ShutdownRequested(broker_id=2, broker_epoch=5, seconds=3.8)
    assert not broken(*history, request, leaving, is_whole=False)


def test_a_broker_without_heartbeats_is_fenced() -> None:
    saying = [replace(sent(1, "node1", "node2", seconds=second / 2), offset=second) for second in range(2, 20)]
    history = (leads(1, 1, 0.1), REGISTERED, UNFENCED, *saying)
    followed = [VoterServed(leader="node1", epoch=1, voter="node3", seconds=float(second)) for second in range(12)]
    found = broken(*history, *followed, beat(2.0), is_whole=False)
    assert FENCED in found
    assert FENCED not in broken(*history, *followed, beat(2.0), fenced(4.5), is_whole=False)
    beats = [beat(float(second)) for second in range(2, 12)]
    assert FENCED not in broken(*history, *followed, *beats, is_whole=False)


def test_a_controller_that_cannot_commit_need_not_fence() -> None:
    """It fences one broker after the other, and the first of them has to wait until a majority is there again."""
    before = [replace(sent(1, "node1", "node2", seconds=second / 2), offset=second) for second in range(2, 6)]
    once_more = replace(sent(1, "node1", "node2", seconds=8.0), offset=9)
    history = (leads(1, 1, 0.1), REGISTERED, UNFENCED, *before, once_more, beat(2.0))
    assert FENCED not in broken(*history, is_whole=False)
    later = replace(once_more, offset=10, seconds=8.6)
    assert FENCED in broken(*history, later, is_whole=False)


def test_incarnations_have_different_broker_epochs() -> None:
    again = committed(9, 3.0, BrokerChange(broker_id=2, broker_epoch=9, incarnation="b", is_fenced=True))
    assert not broken(REGISTERED, again, beat(4.0, epoch=9), is_whole=False)
    assert broken(REGISTERED, again, beat(4.0, epoch=5), is_whole=False) == {STALE_EPOCH}
    same = committed(9, 3.0, BrokerChange(broker_id=2, broker_epoch=5, incarnation="b", is_fenced=True))
    assert broken(REGISTERED, same, is_whole=False) == {OWN_EPOCH}

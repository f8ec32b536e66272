"""A leader that is gone is replaced at once; one that a majority can reach is left alone."""

from functools import partial
from random import Random

import pytest

from odradek.core.raft import events
from odradek.core.raft.settings import RaftSettings
from tests.raft.bugs import BUGS, planted
from tests.raft.timeline import Timeline
from tests.raft.world import Host, World

SEEDS = 10


def quiet_world(seed: int, *, voters: int, fast_detection: bool = True) -> tuple[World, Host]:
    """With Kafka's own timeouts, and a leader."""
    world = World(seed, voters=voters, observers=1, settings=RaftSettings(fast_detection=fast_detection))
    world.start_all()
    assert world.run(20_000, lambda: (leader := world.leader()) is not None and leader.applied_offset > 0)
    world.run(world.now_ms + 1_000)
    leader = world.leader()
    assert leader is not None
    return world, leader


def test_a_killed_leader_is_replaced_within_the_time_of_a_blink() -> None:
    times_ms = []
    for seed in range(SEEDS):
        world, leader = quiet_world(seed, voters=3 + 2 * (seed % 2))
        killed_ms = world.now_ms
        world.crash(leader.node_id)

        def is_replaced(world: World = world, former: Host = leader) -> bool:
            host = world.leader()
            is_other = host is not None and host is not former
            return is_other and host is not None and host.applied_offset == host.disk.end_offset

        assert world.run(world.now_ms + 20_000, is_replaced)
        times_ms.append(world.now_ms - killed_ms)
    times_ms.sort()
    assert times_ms[len(times_ms) // 2] < 150
    assert times_ms[-1] < 500


def depose_by_minority(seed: int, *, voters: int) -> bool:
    """A minority of the voters finds the leader's port closed, again and again, though it serves everybody else."""
    random = Random(seed)
    world, leader = quiet_world(seed, voters=voters)
    epoch = leader.leading_epoch
    others = [node_id for node_id in range(1, voters + 1) if node_id != leader.node_id]
    minority = random.sample(others, (voters - 1) // 2)
    for at_ms in range(0, 3_000, 150):
        node_id = random.choice(minority)
        world.after(at_ms, partial(world.refuse, node_id, leader.node_id))
        if random.random() < 0.3:
            world.after(at_ms + 50, partial(world.connect, node_id, leader.node_id))
    world.run(world.now_ms + 4_000)
    return leader.leading_epoch != epoch


@pytest.mark.parametrize("voters", [3, 5])
def test_a_leader_that_a_majority_reaches_is_never_deposed(voters: int) -> None:
    assert not any(depose_by_minority(seed, voters=voters) for seed in range(SEEDS))


def test_hearsay_would_depose_it() -> None:
    with planted(BUGS["refusal by hearsay"]), pytest.raises(AssertionError, match="not deposed"):
        depose_by_minority(1, voters=3)


def test_switched_off_refusals_change_nothing() -> None:
    transcripts = []
    for is_refused in (False, True):
        world, leader = quiet_world(7, voters=3, fast_detection=False)
        timeline = Timeline()
        world.watchers.append(timeline)
        if is_refused:
            for host in world.hosts.values():
                if host is not leader:
                    host.hear(events.ConnectionRefused(leader.node_id))
        world.run(world.now_ms + 5_000)
        transcripts.append([line for line in timeline.lines if "is refused by" not in line])
    assert transcripts[0] == transcripts[1]

"""A dead leader is replaced at once, and a leader that a majority can reach is never deposed."""

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
    """Returns a world with Kafka's timeouts and an elected leader."""
    world = World(seed, voters=voters, observers=1, settings=RaftSettings(fast_detection=fast_detection))
    world.start_all()
    assert world.run(20_000, lambda: (leader := world.leader()) is not None and leader.applied_offset > 0)
    world.run(world.now_ms + 1_000)
    leader = world.leader()
    assert leader is not None
    return world, leader


def test_killed_leader_is_replaced_within_milliseconds() -> None:
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


def is_deposed_by_minority_refusals(seed: int, *, voters: int) -> bool:
    """The leader's port repeatedly refuses a minority of the voters but serves all others."""
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
def test_leader_that_a_majority_reaches_is_never_deposed(voters: int) -> None:
    assert not any(is_deposed_by_minority_refusals(seed, voters=voters) for seed in range(SEEDS))


def test_refusals_reported_by_another_voter_would_depose_a_live_leader() -> None:
    with (
        planted(BUGS["refused connection reported by another voter"]),
        pytest.raises(AssertionError, match="not deposed"),
    ):
        is_deposed_by_minority_refusals(1, voters=3)


def test_refused_connections_have_no_effect_without_fast_detection() -> None:
    transcripts = []
    for is_refused in (False, True):
        world, leader = quiet_world(7, voters=3, fast_detection=False)
        timeline = Timeline()
        world.watchers.append(timeline)
        if is_refused:
            for host in world.hosts.values():
                if host is not leader:
                    host.step(events.ConnectionRefused(leader.node_id))
        world.run(world.now_ms + 5_000)
        transcripts.append([line for line in timeline.lines if "is refused by" not in line])
    assert transcripts[0] == transcripts[1]

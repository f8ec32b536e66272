"""Virtual time is worth something only if it passes much faster than the real one, and only if many runs fit in memory.

Time is that of this process's processor, and the best of a few attempts counts: a busy machine makes every single one
slower than it need be.
"""

import gc
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from odradek.sim.layout import ONE_NODE, plan_nodes
from odradek.sim.node_host import NodeHost
from odradek.sim.run import run_seed
from odradek.sim.scenarios import POWER_LOSS
from odradek.sim.speed import Speed, measure_busy, measure_idle
from odradek.sim.world import simulated_world

pytestmark = pytest.mark.tier("test")

ATTEMPTS = 5
IDLE_SECONDS = 1200.0


def best_of(measure: Callable[[], Speed], wanted: float) -> Speed:
    best = measure()
    for _ in range(ATTEMPTS - 1):
        if best.simulated_per_real_second >= wanted:
            break
        best = max(best, measure())
    return best


@pytest.mark.tier("proof")
def test_three_idle_nodes_live_a_hundred_times_as_fast() -> None:
    best = best_of(lambda: measure_idle(30.0), 100)
    assert best.simulated_per_real_second >= 100


@pytest.mark.tier("proof")
def test_three_busy_nodes_live_twenty_times_as_fast() -> None:
    best = best_of(lambda: measure_busy(10.0), 20)
    assert best.operations_per_simulated_second >= 20
    assert best.simulated_per_real_second >= 20


@pytest.mark.tier("proof")
def test_a_lone_idle_node_lives_twenty_minutes_in_a_moment() -> None:
    with simulated_world(1) as world:
        plan = plan_nodes(ONE_NODE, world.random("cluster"))
        node = NodeHost(world, plan.nodes[0])
        node.format(plan.initial_controllers)
        node.start()
        assert world.run_for(10, lambda: node.is_ready)
        began = time.process_time()
        world.run_for(IDLE_SECONDS)
        simulated_per_real_second = IDLE_SECONDS / (time.process_time() - began)
        assert node.is_ready
        assert not world.unexpected
    # Thousands on any machine; so low a bound that a busy one does not fail it.
    assert simulated_per_real_second > 300


def test_a_run_leaves_nothing_behind() -> None:
    """But what is kept for all that follow, such as the layouts of messages, which the first runs have seen."""
    short = replace(POWER_LOSS, fault_seconds=0.5)
    for seed in range(2):
        run_seed(seed, short)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(10):
        for seed in range(2):
            run_seed(seed, short)
    # Without a collection: between runs nothing collects either. One run makes some ten thousand objects.
    assert len(gc.get_objects()) < before + 5_000

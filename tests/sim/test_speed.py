"""Virtual time is worth something only if it passes much faster than the real one."""

import time

from odradek.sim.layout import ONE_NODE, plan_nodes
from odradek.sim.node_host import NodeHost
from odradek.sim.world import simulated_world

IDLE_SECONDS = 3600.0


def test_an_idle_node_lives_an_hour_in_a_moment() -> None:
    with simulated_world(1) as world:
        plan = plan_nodes(ONE_NODE, world.random("cluster"))
        node = NodeHost(world, plan.nodes[0])
        node.format(plan.initial_controllers)
        node.start()
        assert world.run_for(10, lambda: node.is_ready)
        began = time.perf_counter()
        world.run_for(IDLE_SECONDS)
        simulated_per_real_second = IDLE_SECONDS / (time.perf_counter() - began)
        assert node.is_ready
        assert not world.unexpected
    # Thousands on any machine; so low a bound that a busy one does not fail it.
    assert simulated_per_real_second > 300

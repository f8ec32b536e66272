"""Virtual time is worth something only if it passes much faster than the real one."""

import time

from odradek.sim.node_host import NodeHost
from odradek.sim.run import node_properties
from odradek.sim.world import simulated_world

IDLE_SECONDS = 3600.0


def test_an_idle_node_lives_an_hour_in_a_moment() -> None:
    with simulated_world(1) as world:
        node = NodeHost(world, "node1", node_properties(world.random("cluster")))
        node.format(is_standalone=not node.config.controller_quorum_voters)
        node.start()
        assert world.run_for(10, lambda: node.is_ready)
        began = time.perf_counter()
        world.run_for(IDLE_SECONDS)
        simulated_per_real_second = IDLE_SECONDS / (time.perf_counter() - began)
        assert node.is_ready
        assert not world.unexpected
    # Thousands on any machine; so low a bound that a busy one does not fail it.
    assert simulated_per_real_second > 300

from random import Random

import pytest

from odradek.config.node_config import NodeConfig
from odradek.sim.layout import (
    ONE_NODE,
    THREE_COMBINED,
    THREE_CONTROLLERS_THREE_HOSTS,
    THREE_CONTROLLERS_TWO_BROKERS,
    Layout,
    Plan,
    plan_nodes,
)


def loaded(plan: Plan) -> list[NodeConfig]:
    return [NodeConfig.load("", node.name, node.properties) for node in plan.nodes]


@pytest.mark.parametrize(
    "layout", [ONE_NODE, THREE_COMBINED, THREE_CONTROLLERS_TWO_BROKERS, THREE_CONTROLLERS_THREE_HOSTS]
)
def test_every_node_has_a_valid_configuration(layout: Layout) -> None:
    for seed in range(10):
        plan = plan_nodes(layout, Random(seed))
        configs = loaded(plan)
        assert [config.node_id for config in configs] == list(range(1, len(configs) + 1))
        voters = {config.node_id for config in configs if config.is_controller}
        assert voters == {node.node_id for node in plan.voters}
        for config in configs:
            named = {voter.node_id for voter in config.controller_quorum_voters}
            first = {voter.node_id for voter in plan.initial_controllers}
            assert (named or first) == voters
            assert bool(first) == bool(config.controller_quorum_bootstrap_servers)


def test_brokers_share_hosts() -> None:
    plan = plan_nodes(THREE_CONTROLLERS_THREE_HOSTS, Random(1))
    assert [node.host for node in plan.nodes] == [
        *("node1", "node2", "node3"),
        *("host1", "host1", "host1", "host2", "host3"),
    ]
    endpoints = [(listener.host, listener.port) for config in loaded(plan) for listener in config.advertised_listeners]
    assert endpoints == [(node.host, node.client_port) for node in plan.brokers]
    assert len(set(endpoints)) == len(plan.brokers)


def test_static_and_dynamic_quorums_are_drawn() -> None:
    kinds = {bool(plan_nodes(THREE_COMBINED, Random(seed)).initial_controllers) for seed in range(20)}
    assert kinds == {True, False}

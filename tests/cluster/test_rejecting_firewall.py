"""A firewall refuses the controller's connections to a broker, as a dead process does: no evidence about the broker."""

import time
from collections.abc import Iterator

import pytest

from tests.cluster.networks import Network
from tests.cluster.real_cluster import RealCluster, real_cluster, roles_of, wait_for
from tests.components import find_program, require

CONTROLLER = 1
WITNESS, BEHIND_FIREWALL = 2, 4
LAYOUT = roles_of(controllers=(CONTROLLER,), brokers=(2, 3, 4))
SESSION_S = 9.0
SETTINGS = {
    "broker.session.timeout.ms": str(int(SESSION_S * 1000)),
    "broker.heartbeat.interval.ms": "500",
}

pytestmark = pytest.mark.tier("proof")


@pytest.fixture(scope="module")
def network(namespaces: None) -> Iterator[Network]:
    require("iptables", lambda: find_program("iptables"))
    network = Network(LAYOUT)
    try:
        network.build()
        network.reject(CONTROLLER, BEHIND_FIREWALL)
        yield network
    finally:
        network.remove()


@pytest.fixture(scope="module")
def cluster(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    hosts = {number: network.address(number) for number in LAYOUT}
    prefixes = {number: network.command_prefix(number) for number in LAYOUT}
    directory = tmp_path_factory.mktemp("firewall")
    with real_cluster(directory, LAYOUT, properties=SETTINGS, hosts=hosts, command_prefixes=prefixes) as cluster:
        yield cluster


def test_broker_that_the_controller_never_reached_keeps_its_session(cluster: RealCluster, network: Network) -> None:
    """The restarted controller receives no heartbeat of the broker for a moment, and its probes are refused."""
    controller = cluster.nodes[CONTROLLER]
    controller.kill()
    network.block(BEHIND_FIREWALL, CONTROLLER)
    controller.start()
    wait_for("the active controller", lambda: controller.output.count("Became active controller") == 2)
    until = time.monotonic() + SESSION_S / 3
    while time.monotonic() < until:
        assert not cluster.fenced(WITNESS)
        time.sleep(0.05)
    network.heal()
    cluster.wait_until_whole()
    assert "reason=process is dead" not in controller.output


def test_other_brokers_are_still_fenced_at_once(cluster: RealCluster) -> None:
    victim = cluster.nodes[3]
    victim.kill()
    try:
        seconds = wait_for("the fence", lambda: cluster.fenced(WITNESS) == {victim.node_id})
        assert seconds < SESSION_S / 3
    finally:
        victim.start()
        cluster.wait_until_whole()

"""A copy of a running broker's log dirs does not replace the broker; a killed broker replaces itself at once."""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odradek.client.admin import Admin
from odradek.client.membership import brokers
from tests.cluster.real_cluster import BROKER, Member, OdradekMember, RealCluster, real_cluster, roles_of, wait_for
from tests.cluster.test_misconfigured_nodes import exit_error, wait_until_logged
from tests.node_process import free_ports

CONTROLLER, ORIGINAL = 1, 3
LAYOUT = roles_of(controllers=(CONTROLLER,), brokers=(2, ORIGINAL))
SESSION_S = 20.0
"""A registration that waits for the session to expire takes longer than any start."""
SETTINGS = {"broker.session.timeout.ms": str(int(SESSION_S * 1000)), "broker.heartbeat.interval.ms": "500"}
REGISTRATION_S = 4.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with real_cluster(tmp_path_factory.mktemp("cluster"), LAYOUT, properties=SETTINGS) as cluster:
        with cluster.client() as client:
            Admin(client).create_topic("orders", partitions=2, replication_factor=2)
        yield cluster


@pytest.fixture
def clone(cluster: RealCluster, tmp_path: Path) -> Iterator[Member]:
    """A node on another port with a copy of the original's log dirs, not started yet."""
    original = cluster.nodes[ORIGINAL]
    node = OdradekMember(tmp_path)
    node.node_id, node.roles = ORIGINAL, (BROKER,)
    node.port, node.controller_port = free_ports(2)
    node.properties = {
        **original.properties,
        "initial.broker.registration.timeout.ms": str(int(REGISTRATION_S * 1000)),
    }
    for source, target in zip(original.log_dirs, node.log_dirs, strict=True):
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(".lock"))
    yield node
    node.kill()


def is_registered_at(cluster: RealCluster, port: int) -> bool:
    with cluster.client(2) as client:
        return brokers(client).nodes[ORIGINAL].address.port == port


@pytest.mark.parametrize("advertises_original", [False, True], ids=["another port", "the endpoint of the original"])
def test_clone_of_a_running_broker_is_rejected(cluster: RealCluster, clone: Member, advertises_original: bool) -> None:
    original = cluster.nodes[ORIGINAL]
    if advertises_original:
        clone.properties["advertised.listeners"] = f"PLAINTEXT://{original.bootstrap}"
    clone.spawn()
    wait_until_logged(clone, "another broker with node.id=3 is running")
    wait_until_logged(cluster.nodes[CONTROLLER], "Broker registration rejected: brokerId=3")
    assert not cluster.fenced(2)
    error = exit_error(clone)
    assert "another broker with node.id=3 is running" in error
    assert "do not start a copy of a running node's log dirs" in error
    assert cluster.unfenced(2) == {2, ORIGINAL}
    assert original.is_running
    assert is_registered_at(cluster, original.port)
    assert "Another process has registered" not in original.output


def restart_seconds(cluster: RealCluster, *nodes: Member) -> float:
    """Kill the nodes, start them, and return the seconds from the start until the cluster is whole."""
    for node in nodes:
        node.kill()
    began_at = time.monotonic()
    for node in nodes:
        node.spawn()
    cluster.wait_until_whole()
    return time.monotonic() - began_at


def test_killed_broker_restarts_before_its_session_expires(
    cluster: RealCluster, measured: Callable[[str], None]
) -> None:
    seconds = restart_seconds(cluster, cluster.nodes[ORIGINAL])
    measured(f"a killed broker serves again {seconds:.2f} s after its start")
    assert seconds < SESSION_S / 2


def test_killed_cluster_restarts_before_sessions_expire(cluster: RealCluster, measured: Callable[[str], None]) -> None:
    """The new process of the controller has never reached the registered brokers."""
    seconds = restart_seconds(cluster, *cluster.nodes.values())
    measured(f"a killed cluster serves again {seconds:.2f} s after its start")
    assert seconds < SESSION_S / 2


@pytest.mark.tier("proof")
def test_clone_takes_over_when_the_original_is_dead(cluster: RealCluster, clone: Member) -> None:
    """As a broker whose disk moves to another computer. The last test: afterwards the original is dead."""
    original = cluster.nodes[ORIGINAL]
    wait_for("the registration of the original", lambda: is_registered_at(cluster, original.port))
    original.kill()
    seconds = clone.start().started_in_s
    assert seconds < SESSION_S / 2
    wait_for("the registration of the clone", lambda: is_registered_at(cluster, clone.port))

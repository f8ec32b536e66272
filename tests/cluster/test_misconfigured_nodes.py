"""Misconfigured nodes: a wrong cluster ID, a node ID in use, different voters, or unreachable controllers.

The cluster rejects each of them, and the logs of both sides state the reason.
"""

import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.cluster.real_cluster import (
    BROKER,
    CONTROLLER,
    Member,
    OdradekMember,
    RealCluster,
    real_cluster,
    roles_of,
    wait_for,
)
from tests.node_process import free_ports

CONTROLLERS = (1, 2, 3)
OTHER_CLUSTER = "odradek-other-cluster0"
REGISTRATION_S = 4.0
FETCH_TIMEOUT_S = 10.0
"""Long enough that a busy computer causes no election: an election is the misconfigured node's fault."""
LOGGED_S_MAX = 60.0
PATIENCE = {"initial.broker.registration.timeout.ms": str(int(REGISTRATION_S * 1000))}
EXIT_USAGE_ERROR = 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with real_cluster(
        tmp_path_factory.mktemp("proper"),
        roles_of(controllers=CONTROLLERS, brokers=(4,)),
        properties={"controller.quorum.fetch.timeout.ms": str(int(FETCH_TIMEOUT_S * 1000))},
    ) as cluster:
        yield cluster


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Member]:
    """A node that is not started yet; each test misconfigures it."""
    node = OdradekMember(tmp_path)
    node.port, node.controller_port = free_ports(2)
    yield node
    node.kill()


def exit_error(node: Member) -> str:
    """Wait until the node exits by itself, and return its single error line."""
    assert node.process is not None
    try:
        assert node.process.wait(LOGGED_S_MAX) == EXIT_USAGE_ERROR, node.output
    except subprocess.TimeoutExpired:
        pytest.fail(f"the node keeps running\n{node.output}")
    lines = [line for line in node.output.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, node.output
    return lines[0]


def is_logged(node: Member, words: Sequence[str]) -> bool:
    """Whether one line of the node's log contains all words."""
    return any(all(word in line for word in words) for line in node.output.splitlines())


def wait_until_logged(node: Member, *words: str) -> None:
    try:
        wait_for(f"node {node.node_id} to log {words}", lambda: is_logged(node, words), LOGGED_S_MAX)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{node.output}") from None


def wait_until_a_controller_logged(cluster: RealCluster, *words: str) -> None:
    """The active controller logs it, and any controller may be active."""
    controllers = [cluster.nodes[node_id] for node_id in CONTROLLERS]
    wait_for(f"a controller to log {words}", lambda: any(is_logged(node, words) for node in controllers), LOGGED_S_MAX)


@pytest.mark.tier("proof")
def test_broker_with_another_cluster_id_is_rejected(cluster: RealCluster, newcomer: Member) -> None:
    newcomer.node_id, newcomer.roles, newcomer.cluster_id = 7, (BROKER,), OTHER_CLUSTER
    newcomer.properties = {"controller.quorum.voters": cluster.voters, **PATIENCE}
    newcomer.spawn()
    wait_until_logged(newcomer, "another cluster", OTHER_CLUSTER)
    wait_until_a_controller_logged(cluster, "node 7", OTHER_CLUSTER, cluster.nodes[1].cluster_id)
    assert OTHER_CLUSTER in exit_error(newcomer)


def test_voter_with_another_cluster_id_is_rejected(cluster: RealCluster, newcomer: Member) -> None:
    newcomer.node_id, newcomer.roles, newcomer.cluster_id = 8, (CONTROLLER,), OTHER_CLUSTER
    newcomer.properties = {"controller.quorum.voters": f"{cluster.voters},{newcomer.voter}"}
    before = cluster.quorum_status()
    newcomer.spawn()
    for node_id in CONTROLLERS:
        wait_until_logged(cluster.nodes[node_id], "node 8", OTHER_CLUSTER)
    wait_until_logged(newcomer, "another cluster", OTHER_CLUSTER)
    assert newcomer.is_running
    assert cluster.quorum_status().leader_epoch == before.leader_epoch


def test_broker_with_a_node_id_in_use_is_rejected(cluster: RealCluster, newcomer: Member) -> None:
    newcomer.node_id, newcomer.roles = 4, (BROKER,)
    newcomer.properties = {"controller.quorum.voters": cluster.voters, **PATIENCE}
    newcomer.spawn()
    assert "another broker with node.id=4 is running" in exit_error(newcomer)
    wait_until_a_controller_logged(cluster, "Broker registration rejected: brokerId=4")
    assert cluster.unfenced(4) == {4}


def test_controller_missing_from_its_own_voters_does_not_start(cluster: RealCluster, newcomer: Member) -> None:
    newcomer.node_id, newcomer.roles = 9, (CONTROLLER,)
    newcomer.properties = {"controller.quorum.voters": cluster.voters}
    with pytest.raises(Exception, match="this node is a controller, but 9 is not among the voters"):
        newcomer.spawn()


def test_controller_unknown_to_the_quorum_does_not_disturb_it(cluster: RealCluster, newcomer: Member) -> None:
    newcomer.node_id, newcomer.roles = 9, (CONTROLLER,)
    newcomer.properties = {"controller.quorum.voters": f"{cluster.voters},{newcomer.voter}"}
    before = cluster.quorum_status()
    newcomer.spawn()
    wait_until_logged(newcomer, "has the voters 1, 2, 3, and", "of this node has 1, 2, 3, 9")
    wait_until_a_controller_logged(cluster, "Controller 9 is not one of the voters 1, 2, 3")
    status = cluster.quorum_status()
    assert (status.leader_id, status.leader_epoch) == (before.leader_id, before.leader_epoch)
    assert {voter.id for voter in status.voters} == {1, 2, 3}


def test_voter_with_an_incomplete_voter_list_logs_the_difference(cluster: RealCluster) -> None:
    leader = cluster.active_controller().node_id
    misconfigured, other = (cluster.nodes[node_id] for node_id in CONTROLLERS if node_id != leader)
    correct = misconfigured.properties["controller.quorum.voters"]
    misconfigured.properties["controller.quorum.voters"] = ",".join(
        voter for voter in correct.split(",") if not voter.startswith(f"{other.node_id}@")
    )
    try:
        misconfigured.restart()
        names = sorted({*CONTROLLERS} - {other.node_id})
        wait_until_logged(misconfigured, "has the voters 1, 2, 3, and", f"of this node has {names[0]}, {names[1]}.")
    finally:
        misconfigured.properties["controller.quorum.voters"] = correct
        misconfigured.restart()


def test_broker_without_reachable_controllers_exits_after_registration_timeout(newcomer: Member) -> None:
    newcomer.node_id, newcomer.roles = 7, (BROKER,)
    newcomer.properties = {"controller.quorum.voters": f"1@127.0.0.1:{newcomer.controller_port}", **PATIENCE}
    newcomer.prepare()
    began_at = time.monotonic()
    newcomer.spawn()
    error = exit_error(newcomer)
    assert "A majority of the controllers must run" in error
    assert "controller.quorum.voters" in error
    assert time.monotonic() - began_at > REGISTRATION_S - 1


def test_controller_without_reachable_voters_keeps_waiting(newcomer: Member) -> None:
    newcomer.node_id, newcomer.roles = 1, (CONTROLLER,)
    second, third = free_ports(2)
    newcomer.properties = {
        "controller.quorum.voters": f"{newcomer.voter},2@127.0.0.1:{second},3@127.0.0.1:{third}",
    }
    newcomer.spawn()
    wait_until_logged(newcomer, "No quorum leader", f"2 at 127.0.0.1:{second}", f"3 at 127.0.0.1:{third}")
    assert newcomer.is_running

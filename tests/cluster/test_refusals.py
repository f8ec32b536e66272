"""Nodes that do not fit: of another cluster, of a number that is taken, of other voters, or with nobody to talk to.

Each is kept out, and whoever looks at either side's log reads why.
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
"""A leader that a busy machine lets wait is not deposed for it: if it is, that is the misfit's doing."""
SAID_S_MAX = 60.0
PATIENCE = {"initial.broker.registration.timeout.ms": str(int(REGISTRATION_S * 1000))}
EXIT_MISTAKE = 2


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
    """A node that is not started yet; tests say what is wrong with it."""
    node = OdradekMember(tmp_path)
    node.port, node.controller_port = free_ports(2)
    yield node
    node.kill()


def last_words(node: Member) -> str:
    """Of a node that gives up by itself: the one line that it says."""
    assert node.process is not None
    try:
        assert node.process.wait(SAID_S_MAX) == EXIT_MISTAKE, node.output
    except subprocess.TimeoutExpired:
        pytest.fail(f"it goes on\n{node.output}")
    lines = [line for line in node.output.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, node.output
    return lines[0]


def is_said(node: Member, words: Sequence[str]) -> bool:
    """In one line."""
    return any(all(word in line for word in words) for line in node.output.splitlines())


def wait_until_said(node: Member, *words: str) -> None:
    try:
        wait_for(f"node {node.node_id} to say {words}", lambda: is_said(node, words), SAID_S_MAX)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{node.output}") from None


def wait_until_a_controller_said(cluster: RealCluster, *words: str) -> None:
    """The active one does, whichever that was."""
    controllers = [cluster.nodes[node_id] for node_id in CONTROLLERS]
    wait_for(f"a controller to say {words}", lambda: any(is_said(node, words) for node in controllers), SAID_S_MAX)


def test_a_broker_of_another_cluster(cluster: RealCluster, newcomer: Member) -> None:
    newcomer.node_id, newcomer.roles, newcomer.cluster_id = 7, (BROKER,), OTHER_CLUSTER
    newcomer.properties = {"controller.quorum.voters": cluster.voters, **PATIENCE}
    newcomer.spawn()
    wait_until_said(newcomer, "another cluster", OTHER_CLUSTER)
    wait_until_a_controller_said(cluster, "node 7", OTHER_CLUSTER, cluster.nodes[1].cluster_id)
    assert OTHER_CLUSTER in last_words(newcomer)


def test_a_voter_of_another_cluster(cluster: RealCluster, newcomer: Member) -> None:
    newcomer.node_id, newcomer.roles, newcomer.cluster_id = 8, (CONTROLLER,), OTHER_CLUSTER
    newcomer.properties = {"controller.quorum.voters": f"{cluster.voters},{newcomer.voter}"}
    before = cluster.quorum_status()
    newcomer.spawn()
    for node_id in CONTROLLERS:
        wait_until_said(cluster.nodes[node_id], "node 8", OTHER_CLUSTER)
    wait_until_said(newcomer, "another cluster", OTHER_CLUSTER)
    assert newcomer.is_running
    assert cluster.quorum_status().leader_epoch == before.leader_epoch


def test_a_number_that_is_taken(cluster: RealCluster, newcomer: Member) -> None:
    newcomer.node_id, newcomer.roles = 4, (BROKER,)
    newcomer.properties = {"controller.quorum.voters": cluster.voters, **PATIENCE}
    newcomer.spawn()
    assert "another broker with node.id=4 is alive" in last_words(newcomer)
    wait_until_a_controller_said(cluster, "broker 4 is not registered")
    assert cluster.unfenced(4) == {4}


def test_a_controller_that_its_own_voters_do_not_name(cluster: RealCluster, newcomer: Member) -> None:
    newcomer.node_id, newcomer.roles = 9, (CONTROLLER,)
    newcomer.properties = {"controller.quorum.voters": cluster.voters}
    with pytest.raises(Exception, match="a controller must be one of the voters, and 9 is not"):
        newcomer.spawn()


def test_a_controller_that_the_others_do_not_name(cluster: RealCluster, newcomer: Member) -> None:
    newcomer.node_id, newcomer.roles = 9, (CONTROLLER,)
    newcomer.properties = {"controller.quorum.voters": f"{cluster.voters},{newcomer.voter}"}
    before = cluster.quorum_status()
    newcomer.spawn()
    wait_until_said(newcomer, "controller.quorum.voters names 1, 2, 3, 9", "voters are 1, 2, 3")
    wait_until_a_controller_said(cluster, "node 9 is a controller and not one of the voters 1, 2, 3")
    status = cluster.quorum_status()
    assert (status.leader_id, status.leader_epoch) == (before.leader_id, before.leader_epoch)
    assert {voter.id for voter in status.voters} == {1, 2, 3}


def test_a_voter_whose_list_is_shorter(cluster: RealCluster) -> None:
    leader = cluster.active_controller().node_id
    odd_one, other = (cluster.nodes[node_id] for node_id in CONTROLLERS if node_id != leader)
    right = odd_one.properties["controller.quorum.voters"]
    odd_one.properties["controller.quorum.voters"] = ",".join(
        voter for voter in right.split(",") if not voter.startswith(f"{other.node_id}@")
    )
    try:
        odd_one.restart()
        names = sorted({*CONTROLLERS} - {other.node_id})
        wait_until_said(odd_one, f"controller.quorum.voters names {names[0]}, {names[1]} here", "voters are 1, 2, 3")
    finally:
        odd_one.properties["controller.quorum.voters"] = right
        odd_one.restart()


def test_a_broker_with_nobody_there(newcomer: Member) -> None:
    newcomer.node_id, newcomer.roles = 7, (BROKER,)
    newcomer.properties = {"controller.quorum.voters": f"1@127.0.0.1:{newcomer.controller_port}", **PATIENCE}
    newcomer.prepare()
    began_at = time.monotonic()
    newcomer.spawn()
    said = last_words(newcomer)
    assert "a majority of the controllers must run" in said
    assert "controller.quorum.voters" in said
    assert time.monotonic() - began_at > REGISTRATION_S - 1


def test_a_controller_with_nobody_there_waits(newcomer: Member) -> None:
    newcomer.node_id, newcomer.roles = 1, (CONTROLLER,)
    second, third = free_ports(2)
    newcomer.properties = {
        "controller.quorum.voters": f"{newcomer.voter},2@127.0.0.1:{second},3@127.0.0.1:{third}",
    }
    newcomer.spawn()
    wait_until_said(newcomer, "no leader", f"2 at 127.0.0.1:{second}", f"3 at 127.0.0.1:{third}")
    assert newcomer.is_running

"""Three nodes on a virtual network whose links are blocked in both directions, in one direction, or only partly.

As with a pulled cable, packets vanish without an error. Kafka's timeouts decide then, never the detection of dead
processes.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from odradek.client.admin import Admin
from tests.cluster.failover import change_setting_through
from tests.cluster.metadata_load import MetadataLoad
from tests.cluster.metadata_views import assert_equal_everywhere, assert_holds
from tests.cluster.networks import Network
from tests.cluster.real_cluster import RealCluster, real_cluster, roles_of, wait_for

NODES = (1, 2, 3)
FETCH_TIMEOUT_S = 1.0
PATIENT_FETCH_TIMEOUT_S = 4.0
"""Long enough that a busy computer does not cause an election."""
FETCH_TIMEOUTS_PER_SESSION = 4
SESSION_S = FETCH_TIMEOUTS_PER_SESSION * FETCH_TIMEOUT_S
NEW_LEADER_S_MAX = 15.0


def settings(fetch_timeout_s: float) -> dict[str, str]:
    return {
        "controller.quorum.fetch.timeout.ms": str(int(fetch_timeout_s * 1000)),
        "controller.quorum.election.timeout.ms": "500",
        "broker.session.timeout.ms": str(int(FETCH_TIMEOUTS_PER_SESSION * fetch_timeout_s * 1000)),
        "broker.heartbeat.interval.ms": "500",
    }


@pytest.fixture(scope="module")
def network(namespaces: None) -> Iterator[Network]:
    network = Network(NODES)
    try:
        network.build()
        yield network
    finally:
        network.remove()


@pytest.fixture(scope="module", params=[FETCH_TIMEOUT_S])
def whole_cluster(
    request: pytest.FixtureRequest, network: Network, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealCluster]:
    hosts = {number: network.address(number) for number in NODES}
    prefixes = {number: network.command_prefix(number) for number in NODES}
    options = {"properties": settings(request.param), "hosts": hosts, "command_prefixes": prefixes}
    with real_cluster(tmp_path_factory.mktemp("network"), roles_of(combined=NODES), **options) as cluster:
        yield cluster


@pytest.fixture
def cluster(network: Network, whole_cluster: RealCluster) -> Iterator[RealCluster]:
    yield whole_cluster
    network.heal()
    whole_cluster.wait_until_whole()


def others_than(node_id: int) -> list[int]:
    return [other for other in NODES if other != node_id]


def both_ways(network: Network, leader: int) -> None:
    network.isolate(leader)


def leader_cannot_send(network: Network, leader: int) -> None:
    """The leader receives packets of the others, but its own packets are dropped."""
    for other in others_than(leader):
        network.block(leader, other)


def leader_cannot_receive(network: Network, leader: int) -> None:
    """The others receive packets of the leader, but their packets to it are dropped."""
    for other in others_than(leader):
        network.block(other, leader)


@pytest.mark.parametrize(
    "block",
    [
        both_ways,
        pytest.param(leader_cannot_send, marks=pytest.mark.tier("proof")),
        pytest.param(leader_cannot_receive, marks=pytest.mark.tier("proof")),
    ],
)
def test_partitioned_active_controller_is_replaced_and_acknowledges_nothing(
    cluster: RealCluster, network: Network, block: Callable[[Network, int], None]
) -> None:
    topic = f"sent-to-the-partitioned-{block.__name__.replace('_', '-')}"
    with cluster.client() as client:
        Admin(client).create_topic(topic, partitions=1, replication_factor=1)
    partitioned, epoch = cluster.leadership()
    others = others_than(partitioned.node_id)
    addresses = [cluster.nodes[node_id].address for node_id in others]
    with MetadataLoad(addresses, timeout_s=60.0) as load, ThreadPoolExecutor(1) as thread:
        try:
            block(network, partitioned.node_id)
            blocked_at = time.monotonic()
            requested = thread.submit(change_setting_through, partitioned, topic, 1_234_567)
            wait_for("a new leader", lambda: cluster.active_controller(*others).node_id in others, NEW_LEADER_S_MAX)
            before = load.acknowledged
            wait_for("changes under the new leader", lambda: load.acknowledged > before + 10)
            # Its port is unresponsive but does not refuse connections, so only the session timeout fences it.
            while time.monotonic() - blocked_at < SESSION_S / 2:
                assert cluster.fenced(*others) == set()
                time.sleep(0.05)
            assert not requested.done(), "the partitioned controller acknowledged a change"
        finally:
            network.heal()
        requested.result(timeout=30)
        cluster.wait_until_whole()
    status = cluster.quorum_status(partitioned.node_id)
    assert status.leader_epoch > epoch
    view = assert_equal_everywhere(cluster)
    assert_holds(view, load.expected)
    assert view[topic][2] == "1234567"


@pytest.mark.parametrize("whole_cluster", [PATIENT_FETCH_TIMEOUT_S], indirect=True)
@pytest.mark.tier("proof")
def test_voter_that_cannot_reach_only_the_leader_causes_no_election(cluster: RealCluster, network: Network) -> None:
    """The third node still follows the leader and rejects the pre-vote."""
    leader, epoch = cluster.leadership()
    partitioned, third = others_than(leader.node_id)
    network.block(leader.node_id, partitioned)
    network.block(partitioned, leader.node_id)
    with MetadataLoad([leader.address, cluster.nodes[third].address]) as load:
        time.sleep(2.5 * PATIENT_FETCH_TIMEOUT_S)
    assert cluster.leadership(third) == (leader, epoch)
    assert load.acknowledged > 10
    network.heal()
    cluster.wait_until_whole()
    assert_holds(assert_equal_everywhere(cluster), load.expected)

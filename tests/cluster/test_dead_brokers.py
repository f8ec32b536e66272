"""The controller fences dead brokers at once, and unresponsive brokers when their session expires.

The tests measure the time from the signal until a surviving broker sees the other broker fenced.
"""

import time
from collections.abc import Callable, Iterator

import pytest

from tests.cluster.real_cluster import Member, RealCluster, real_cluster, roles_of, wait_for

LAYOUT = roles_of(controllers=(1,), brokers=(2, 3, 4))
WITNESS = 2
SESSION_S = 9.0
HEARTBEAT_S = 0.5
SETTINGS = {
    "broker.session.timeout.ms": str(int(SESSION_S * 1000)),
    "broker.heartbeat.interval.ms": str(int(HEARTBEAT_S * 1000)),
}
EARLY_S_MAX = 2.0
"""The grace of 300 ms, metadata propagation and a busy computer; still far below the session timeout."""
LATE_S_MIN = SESSION_S / 2
"""The last heartbeat may have been late; a broker considered dead is fenced much earlier."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with real_cluster(tmp_path_factory.mktemp("brokers"), LAYOUT, properties=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def victim(cluster: RealCluster) -> Iterator[Member]:
    """A broker that the test may kill or freeze; it runs again afterwards."""
    node = cluster.nodes[4]
    yield node
    if node.is_running:
        node.wake()
    else:
        node.start()
    cluster.wait_until_whole()


def seconds_until_fenced(cluster: RealCluster, node: Member) -> float:
    return wait_for(f"the fence of broker {node.node_id}", lambda: node.node_id in cluster.fenced(WITNESS))


def test_killed_broker_is_fenced_before_its_session_expires(
    cluster: RealCluster, victim: Member, measured: Callable[[str], None]
) -> None:
    victim.kill()
    seconds = seconds_until_fenced(cluster, victim)
    measured(f"a broker is fenced {seconds * 1000:.0f} ms after kill -9")
    assert seconds < EARLY_S_MAX
    # The controller logs the fencing after it has taken effect.
    log_line = f"Broker fenced: brokerId={victim.node_id}, reason=process is dead"
    wait_for("the controller to log the reason", lambda: log_line in cluster.nodes[1].output)


@pytest.mark.tier("proof")
def test_frozen_broker_is_fenced_when_its_session_expires(cluster: RealCluster, victim: Member) -> None:
    victim.freeze()
    seconds = seconds_until_fenced(cluster, victim)
    assert LATE_S_MIN < seconds < SESSION_S + EARLY_S_MAX
    victim.wake()
    seconds = wait_for("the end of the fence", lambda: not cluster.fenced(WITNESS))
    assert seconds < EARLY_S_MAX


@pytest.mark.tier("proof")
def test_freeze_shorter_than_the_session_does_not_fence_a_broker(cluster: RealCluster, victim: Member) -> None:
    victim.freeze()
    until = time.monotonic() + SESSION_S / 3
    while time.monotonic() < until:
        assert not cluster.fenced(WITNESS)
        time.sleep(0.05)
    victim.wake()
    time.sleep(2 * HEARTBEAT_S)
    assert not cluster.fenced(WITNESS)


@pytest.mark.tier("proof")
def test_at_most_a_minority_of_brokers_is_fenced_before_session_expiry(cluster: RealCluster, victim: Member) -> None:
    """When two of three brokers die, the cause may be the controller itself, so one of them keeps its session."""
    second = cluster.nodes[3]
    victim.kill()
    second.kill()
    try:
        both = {victim.node_id, second.node_id}
        seconds = wait_for("both fences", lambda: cluster.fenced(WITNESS) == both)
        assert LATE_S_MIN < seconds < SESSION_S + EARLY_S_MAX
    finally:
        second.start()


@pytest.mark.tier("proof")
def test_zero_disconnect_grace_fences_killed_broker_only_at_session_expiry(
    cluster: RealCluster, victim: Member
) -> None:
    controller = cluster.nodes[1]
    controller.properties["broker.disconnect.grace.ms"] = "0"
    controller.restart()
    cluster.wait_until_whole()
    victim.kill()
    seconds = seconds_until_fenced(cluster, victim)
    assert LATE_S_MIN < seconds < SESSION_S + EARLY_S_MAX

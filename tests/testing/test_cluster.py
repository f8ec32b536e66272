"""`odradek.testing.Cluster` with its nodes in threads and in processes."""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odradek.testing import Cluster, ClusterError
from tests.node_process import is_alive
from tests.testing.clients import consume, create_topic, produce, texts

START_SECONDS_MAX = 15.0
"""The targets are 1 s in one process and 1.5 s in several on a quiet machine; this one may be busy with other tests."""


@pytest.fixture(autouse=True)
def check_cleanup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    assert not list(tmp_path.iterdir())
    assert not [one for one in threading.enumerate() if "odradek-" in one.name]
    assert not _children()


@pytest.fixture(params=[False, True], ids=["threads", "processes"])
def processes(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def _children() -> list[str]:
    listed = subprocess.run(
        ["ps", "--ppid", str(os.getpid()), "-o", "args="], capture_output=True, text=True, check=False
    )
    return [line for line in listed.stdout.splitlines() if "odradek.testing.child" in line]


def test_a_cluster_starts_fast_and_serves_requests(processes: bool, measured: Callable[[str], None]) -> None:
    with Cluster(brokers=1, processes=processes):
        """Imports cost time once per process, not per cluster."""
    began_at = time.perf_counter()
    with Cluster(processes=processes) as cluster:
        seconds = time.perf_counter() - began_at
        measured(f"three brokers in {'processes' if processes else 'threads'} served after {seconds:.2f} s")
        create_topic(cluster, "orders")
        produce(cluster, "orders", texts(0, 100))
        assert consume(cluster, "orders", 100) == texts(0, 100)
        addresses = [address.rsplit(":", 1) for address in cluster.bootstrap_servers.split(",")]
    assert seconds < START_SECONDS_MAX
    for host, port in addresses:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), timeout=30)


def test_a_killed_leader_is_replaced_and_restarted(processes: bool) -> None:
    with Cluster(processes=processes) as cluster:
        create_topic(cluster, "orders")
        produce(cluster, "orders", texts(0, 100))
        leader = cluster.leader("orders")
        cluster.kill(leader)
        produce(cluster, "orders", texts(100, 200))
        assert cluster.leader("orders") != leader
        cluster.wait_until_healthy()
        with pytest.raises(ClusterError, match=f"node {leader} is not running"):
            cluster.pause(leader)
        cluster.restart(leader)
        cluster.wait_until_healthy()
        for broker in cluster.brokers:
            if broker != leader:
                cluster.restart(broker)
                cluster.wait_until_healthy()
        assert consume(cluster, "orders", 200) == texts(0, 200)


def test_a_paused_leader_is_fenced_and_rejoins(processes: bool) -> None:
    session = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "300"}
    with Cluster(brokers=3, controllers=1, processes=processes, properties=session) as cluster:
        assert (cluster.controllers, cluster.brokers) == ((1,), (2, 3, 4))
        create_topic(cluster, "orders")
        leader = cluster.leader("orders")
        cluster.pause(leader)
        cluster.wait_until_healthy()
        assert cluster.leader("orders") != leader
        cluster.resume(leader)
        cluster.wait_until_healthy()
        produce(cluster, "orders", texts(0, 10))


def test_a_paused_node_can_be_killed(processes: bool) -> None:
    with Cluster(brokers=1, processes=processes) as cluster:
        cluster.pause(1)
        cluster.kill(1)
        cluster.restart(1)
        cluster.wait_until_healthy()
        cluster.pause(1)


def test_acknowledged_records_survive_the_kill_of_all_nodes(processes: bool) -> None:
    with Cluster(brokers=1, processes=processes) as cluster:
        create_topic(cluster, "orders", replicas=1)
        produce(cluster, "orders", texts(0, 50))
        cluster.kill(1)
        with pytest.raises(ClusterError, match="no broker is running"):
            cluster.wait_until_healthy(0.1)
        cluster.restart(1)
        assert consume(cluster, "orders", 50) == texts(0, 50)


def test_the_cluster_is_an_async_context_manager() -> None:
    async def run() -> None:
        async with Cluster(brokers=1) as cluster:
            await asyncio.to_thread(create_topic, cluster, "orders", 1)

    asyncio.run(run())


def test_an_invalid_property_fails_at_once(processes: bool) -> None:
    with (
        pytest.raises(Exception, match=r"num\.partitions"),
        Cluster(processes=processes, properties={"num.partitions": "x"}),
    ):
        raise AssertionError("it started")


def test_node_processes_exit_with_the_test() -> None:
    program = (
        "import os, signal, sys; from odradek.testing import Cluster\n"
        "with Cluster(brokers=1, processes=True) as cluster:\n"
        "    print(cluster._members[1]._process.pid, cluster._directory, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False)
    pid, directory = killed.stdout.split()
    deadline = time.monotonic() + START_SECONDS_MAX
    while is_alive(int(pid)):
        assert time.monotonic() < deadline, "the node outlived its test"
        time.sleep(0.01)
    # The killed test could not delete its directory.
    subprocess.run(["rm", "-r", directory], check=True)


def test_methods_of_a_stopped_cluster_raise() -> None:
    with pytest.raises(ClusterError, match="not running"):
        Cluster().kill(1)
    with Cluster(brokers=1) as cluster, pytest.raises(ClusterError, match="node 2 does not exist"):
        cluster.kill(2)

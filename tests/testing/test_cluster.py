"""`odradek.testing.Cluster` as its users see it, with its nodes in threads and in processes."""

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
"""On a quiet machine the bars are 1 s in one process and 1.5 s in several; this one may be busy with other tests."""


@pytest.fixture(autouse=True)
def nothing_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
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


def test_starts_fast_and_serves(processes: bool, measured: Callable[[str], None]) -> None:
    with Cluster(brokers=1, processes=processes):
        """The imports of this process are paid once, not by every cluster."""
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


def test_the_leader_is_killed_and_comes_back(processes: bool) -> None:
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


def test_a_paused_leader_loses_its_session_and_comes_back(processes: bool) -> None:
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


def test_what_was_acknowledged_outlives_the_kill_of_all(processes: bool) -> None:
    with Cluster(brokers=1, processes=processes) as cluster:
        create_topic(cluster, "orders", replicas=1)
        produce(cluster, "orders", texts(0, 50))
        cluster.kill(1)
        with pytest.raises(ClusterError, match="no broker is running"):
            cluster.wait_until_healthy(0.1)
        cluster.restart(1)
        assert consume(cluster, "orders", 50) == texts(0, 50)


def test_async_form() -> None:
    async def run() -> None:
        async with Cluster(brokers=1) as cluster:
            await asyncio.to_thread(create_topic, cluster, "orders", 1)

    asyncio.run(run())


def test_a_property_that_cannot_be_ends_it_at_once(processes: bool) -> None:
    with (
        pytest.raises(Exception, match=r"num\.partitions"),
        Cluster(processes=processes, properties={"num.partitions": "x"}),
    ):
        raise AssertionError("it started")


def test_node_processes_end_with_the_test() -> None:
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
    # Killed like that, the test could not remove it.
    subprocess.run(["rm", "-r", directory], check=True)


def test_a_cluster_that_does_not_run_says_so() -> None:
    with pytest.raises(ClusterError, match="not running"):
        Cluster().kill(1)
    with Cluster(brokers=1) as cluster, pytest.raises(ClusterError, match="there is no node 2"):
        cluster.kill(2)

"""SIGTERM before a node serves: it stops soon, whatever it waits for, and its next start misses nothing."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.apis import Api
from tests.cluster.real_cluster import OdradekMember, RealCluster, roles_of, wait_for
from tests.node_process import is_alive
from tests.odradek_process import OdradekProcess
from tests.raw_wire import RawConnection
from tests.slow_recovery import append_unflushed
from tests.wire.up_process import ODRADEK, free_row, node_pid, up

STOP_WITHIN_S = 2.0
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
TOPIC = "slow"


def assert_stops_soon(process: "subprocess.Popen[bytes] | subprocess.Popen[str]") -> None:
    began_at = time.monotonic()
    process.send_signal(signal.SIGTERM)
    try:
        assert process.wait(30) == 0
    finally:
        process.kill()
    assert time.monotonic() - began_at < STOP_WITHIN_S


def start_alone(cluster: RealCluster, node_id: int) -> OdradekMember:
    """Start one node and wait until it waits for the others."""
    node = cluster.nodes[node_id]
    assert isinstance(node, OdradekMember)
    node.spawn()
    wait_for("a warning", lambda: "No quorum leader" in node.output or not node.is_running)
    assert node.is_running, node.output
    return node


@pytest.mark.parametrize("roles", [["controller"], ["broker", "controller"]])
def test_a_controller_without_a_majority_stops(tmp_path: Path, roles: list[str]) -> None:
    cluster = RealCluster(tmp_path, dict.fromkeys((1, 2, 3), roles))
    node = start_alone(cluster, 1)
    assert node.process is not None
    assert_stops_soon(node.process)


def test_a_broker_without_a_controller_stops(tmp_path: Path) -> None:
    cluster = RealCluster(tmp_path, roles_of(controllers=[1], brokers=[2]))
    node = start_alone(cluster, 2)
    assert node.process is not None
    assert_stops_soon(node.process)
    assert not (node.log_dirs[0] / CLEAN_SHUTDOWN).exists()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OdradekProcess]:
    node = OdradekProcess(tmp_path)
    yield node
    node.kill()


def create_topic(port: int) -> None:
    new = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1}
    with RawConnection(port) as connection:
        connection.request(Api.CREATE_TOPICS, 5, {"topics": [new], "timeout": 10_000})


def end_offset(port: int) -> int:
    wanted = {"partition_index": 0, "timestamp": -1}
    fields = {"replica_id": -1, "topics": [{"name": TOPIC, "partitions": [wanted]}]}
    with RawConnection(port) as connection:
        (response,) = connection.request(Api.LIST_OFFSETS, 6, fields).topics[0].partitions
    return int(response.offset)


def is_recovering(log_dir: Path) -> bool:
    """Recovery writes the index of each segment, and this log is without any."""
    return any((log_dir / f"{TOPIC}-0").glob("*.index"))


def make_recovery_slow(log_dir: Path, *, batches: int, segments: int) -> None:
    partition = log_dir / f"{TOPIC}-0"
    for index in partition.glob("*.*index"):
        index.unlink()
    append_unflushed(partition, batches=batches, segments=segments)


@pytest.mark.parametrize("segments", [1, 200])
def test_a_broker_in_recovery_stops(node: OdradekProcess, segments: int) -> None:
    node.start()
    create_topic(node.port)
    node.kill()
    log_dir = node.log_dirs[0]
    make_recovery_slow(log_dir, batches=1_000_000, segments=segments)
    node.spawn()
    wait_for("recovery", lambda: is_recovering(log_dir))
    assert node.process is not None
    assert_stops_soon(node.process)
    assert not (log_dir / CLEAN_SHUTDOWN).exists()


def test_a_log_is_whole_after_its_recovery_was_interrupted(node: OdradekProcess) -> None:
    node.start()
    create_topic(node.port)
    node.kill()
    log_dir = node.log_dirs[0]
    make_recovery_slow(log_dir, batches=100_000, segments=10)
    node.spawn()
    wait_for("recovery", lambda: is_recovering(log_dir))
    node.stop()
    assert not (log_dir / CLEAN_SHUTDOWN).exists()
    node.start()
    assert end_offset(node.port) == 100_000


@pytest.fixture
def stopped_cluster(tmp_path: Path) -> tuple[Path, int]:
    """The data directory of an `odradek up` with three controllers and a broker, and its port."""
    port = free_row(5)
    data_dir = tmp_path / "cluster"
    with up(data_dir, port, "--controllers", "3", "--brokers", "1"):
        create_topic(port)
    return data_dir, port


def assert_up_stops_soon(data_dir: Path, numbers: tuple[int, ...], is_waiting: Callable[[], bool]) -> None:
    command = [*ODRADEK, "up", "--no-console", "--data-dir", str(data_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        pids: list[int] = []
        try:
            wait_for("the nodes", is_waiting)
            pids += [node_pid(data_dir, number) for number in numbers]
            assert_stops_soon(process)
            assert not any(map(is_alive, pids))
        finally:
            process.kill()
            for pid in filter(is_alive, pids):
                os.kill(pid, signal.SIGKILL)


def test_up_stops_nodes_that_have_no_majority(stopped_cluster: tuple[Path, int], tmp_path: Path) -> None:
    data_dir, _ = stopped_cluster
    for number in (2, 3):
        (data_dir / f"node-{number}").rename(tmp_path / f"away-{number}")
    logs = [data_dir / f"node-{number}" / "log" for number in (1, 4)]
    for log in logs:
        log.unlink()
    # Both remember the leader of the last run.
    assert_up_stops_soon(
        data_dir, (1, 4), lambda: all(log.exists() and "Quorum leader changed" in log.read_text() for log in logs)
    )


def test_up_stops_a_node_in_recovery(stopped_cluster: tuple[Path, int]) -> None:
    data_dir, _ = stopped_cluster
    log_dir = data_dir / "node-4" / "data"
    (log_dir / CLEAN_SHUTDOWN).unlink()
    make_recovery_slow(log_dir, batches=1_000_000, segments=1)
    assert_up_stops_soon(data_dir, (1, 2, 3, 4), lambda: is_recovering(log_dir))

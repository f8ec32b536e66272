"""`odradek up` with several nodes: combined nodes and dedicated controllers."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.local.cores import count_usable_cores
from tests.node_process import serves
from tests.wire.up_process import (
    ODRADEK,
    START_TIMEOUT_S,
    call,
    error_line,
    free_row,
    messages,
    node_pid,
    up,
    wait_until_gone,
)

# Brokers shut down in a controlled way before the controllers stop, so no timeout expires.
STOP_WITHIN_S = 25


def nodes(bootstrap: str) -> dict[int, dict[str, Any]]:
    shown = call("cluster", "-b", bootstrap, "--format", "json")
    assert shown.returncode == 0, shown.stderr
    return {node["node"]: node for node in json.loads(shown.stdout)["nodes"]}


def active_controller(bootstrap: str) -> int:
    return next(number for number, node in nodes(bootstrap).items() if node["controller"] == "active")


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def stop(process: "subprocess.Popen[str]", number: signal.Signals = signal.SIGTERM) -> str:
    """Stop the process cleanly and return its messages."""
    before = time.monotonic()
    process.send_signal(number)
    assert process.wait(START_TIMEOUT_S) == 0
    assert time.monotonic() - before < STOP_WITHIN_S
    return "".join(messages(process))


def test_three_combined_nodes(tmp_path: Path) -> None:
    data_dir, port = tmp_path / "cluster", free_row(4)
    bootstrap = f"127.0.0.1:{port}"
    with up(data_dir, port, "--brokers", "3", brokers=3) as process:
        assert all(serves(port + number) for number in range(3))
        found = nodes(f"127.0.0.1:{port + 2}")
        assert [node["roles"] for node in found.values()] == [["broker", "controller"]] * 3
        assert {node["broker"] for node in found.values()} == {"online"}
        assert sorted(node["controller"] for node in found.values()) == ["active", "voter", "voter"]
        assert call("topic", "create", "orders", "-p", "3", "-b", bootstrap).returncode == 0
        (described,) = json.loads(call("topic", "describe", "orders", "-b", bootstrap, "--format", "json").stdout)
        assert sorted(partition["leader"] for partition in described["partitions"]) == [1, 2, 3]
        for number in range(3):
            assert call("produce", "orders", f"value {number}", "-p", str(number), "-b", bootstrap).returncode == 0
        pids = [node_pid(data_dir, number) for number in (1, 2, 3)]
        assert stop(process, signal.SIGINT) == ""
    for pid in pids:
        wait_until_gone(pid)

    # Later runs keep the number of brokers, and more can be added.
    with up(data_dir, port, brokers=3) as process:
        shown = call("consume", "orders", "-b", bootstrap, "--no-follow")
        assert sorted(shown.stdout.splitlines()) == ["value 0", "value 1", "value 2"]
        stop(process)
    assert "would remove brokers with data" in error_line("up", "--data-dir", str(data_dir), "--brokers", "2")
    with up(data_dir, port, "--brokers", "4", brokers=4) as process:
        found = nodes(f"127.0.0.1:{port + 3}")
        assert (found[4]["roles"], found[4]["broker"]) == (["broker"], "online")
        stop(process)


@pytest.mark.tier("proof")
def test_dedicated_controllers(tmp_path: Path) -> None:
    data_dir, port = tmp_path / "cluster", free_row(2)
    bootstrap = f"127.0.0.1:{port},127.0.0.1:{port + 1}"
    with up(data_dir, port, "--controllers", "3", "--brokers", "2", brokers=2) as process:
        found = nodes(bootstrap)
        assert [node["roles"] for node in found.values()] == [["controller"]] * 3 + [["broker"]] * 2
        assert call("topic", "create", "before", "-b", bootstrap).returncode == 0

        killed = active_controller(bootstrap)
        os.kill(node_pid(data_dir, killed), signal.SIGKILL)
        assert f"Node {killed} was killed by SIGKILL" in next(messages(process), "")
        # Another controller has to be elected first.
        assert call("topic", "create", "after", "-b", bootstrap, "--timeout", "60").returncode == 0
        assert active_controller(bootstrap) != killed
        assert stop(process) == ""
    with up(data_dir, port, brokers=2) as process:
        listed = json.loads(call("topic", "list", "-b", bootstrap, "--format", "json").stdout)
        assert {entry["topic"] for entry in listed} == {"before", "after"}
        assert {node["controller"] for node in nodes(bootstrap).values()} == {"active", "voter", None}
        stop(process)


def test_a_killed_broker_is_reported_and_can_be_restarted(tmp_path: Path) -> None:
    data_dir, port = tmp_path / "cluster", free_row(2)
    bootstrap = f"127.0.0.1:{port}"
    with up(data_dir, port, "--brokers", "2", brokers=2) as process:
        assert [node["controller"] for node in nodes(bootstrap).values()] == ["active", None]
        os.kill(node_pid(data_dir, 2), signal.SIGKILL)
        line = next(messages(process), "")
        assert line.startswith("Node 2 was killed by SIGKILL")
        wait_for(lambda: nodes(bootstrap)[2]["broker"] == "fenced")
        file = data_dir / "node-2" / "server.properties"
        assert f"Restart the node with `odradek start {file}`." in line
        with subprocess.Popen([*ODRADEK, "start", str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as node:
            assert node.stdout is not None
            assert node.stdout.readline() == f"ready bootstrap=127.0.0.1:{port + 1}\n".encode()
            wait_for(lambda: nodes(bootstrap)[2]["broker"] == "online")
            node.send_signal(signal.SIGTERM)
            assert node.wait(START_TIMEOUT_S) == 0
        wait_for(lambda: nodes(bootstrap)[2]["broker"] == "fenced")
        assert call("cluster", "unregister", "2", "-b", bootstrap).returncode == 0
        wait_for(lambda: list(nodes(bootstrap)) == [1])
        stop(process)


@pytest.mark.tier("proof")
def test_a_cluster_grows_from_one_broker_to_three(tmp_path: Path) -> None:
    data_dir, port = tmp_path / "cluster", free_row(3)
    bootstrap = f"127.0.0.1:{port}"
    with up(data_dir, port):
        assert call("topic", "create", "first", "-b", bootstrap).returncode == 0
    with up(data_dir, port, "--brokers", "3", brokers=3) as process:
        assert call("topic", "create", "second", "-p", "3", "-b", bootstrap).returncode == 0
        (described,) = json.loads(call("topic", "describe", "second", "-b", bootstrap, "--format", "json").stdout)
        assert sorted(partition["leader"] for partition in described["partitions"]) == [1, 2, 3]
        assert [node["controller"] for node in nodes(bootstrap).values()] == ["active", None, None]
        stop(process)


def test_one_broker_per_core(tmp_path: Path) -> None:
    cores = count_usable_cores()
    data_dir, port = tmp_path / "cluster", free_row(cores + 1)
    with up(data_dir, port, "--brokers", "auto", brokers=cores) as process:
        assert sum("broker" in node["roles"] for node in nodes(f"127.0.0.1:{port}").values()) == cores
        stop(process)


@pytest.mark.parametrize("options", [("--brokers", "3"), ("--controllers", "1", "--brokers", "2")])
def test_a_port_in_use_is_reported_before_files_are_written(tmp_path: Path, options: tuple[str, ...]) -> None:
    data_dir, port = tmp_path / "cluster", free_row(4)
    with up(tmp_path / "other", port + 1):
        line = error_line("up", "--data-dir", str(data_dir), "--port", str(port), *options)
    assert f"Cannot bind 127.0.0.1:{port + 1}: address already in use" in line
    assert list(data_dir.iterdir()) == []

"""`odradek up` and `odradek start` as processes."""

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

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


def test_a_new_cluster_is_started_stopped_and_restarted(tmp_path: Path) -> None:
    data_dir, port = tmp_path / "cluster", free_row()
    bootstrap = f"127.0.0.1:{port}"
    with up(data_dir, port) as process:
        assert serves(port)
        assert process.stdout is not None
        hints = [process.stdout.readline() for _ in range(4)]
        assert [words in hint for words, hint in zip(("topic create", "produce", "consume"), hints[1:], strict=True)]
        assert all(bootstrap in hint for hint in hints[1:])
        assert {path.name for path in (data_dir / "node-1").iterdir()} == {"server.properties", "pid", "log", "data"}
        pid = node_pid(data_dir)
        # The printed commands work.
        for hint in hints[1:3]:
            subprocess.run(hint, shell=True, check=True, capture_output=True, timeout=60)
        process.send_signal(signal.SIGINT)
        assert process.wait(START_TIMEOUT_S) == 0
        assert list(messages(process)) == []
    wait_until_gone(pid)
    assert not (data_dir / "node-1" / "pid").exists()

    with up(data_dir, port):
        shown = call("consume", "greetings", "-b", bootstrap, "--no-follow")
        assert (shown.returncode, shown.stdout) == (0, "hello\n")

    with up(data_dir, port, "--fresh"):
        assert call("topic", "list", "-b", bootstrap, "--format", "json").stdout == "[]\n"


def test_edited_properties_are_kept_and_the_port_can_change(tmp_path: Path) -> None:
    data_dir, port = tmp_path / "cluster", free_row()
    with up(data_dir, port):
        pass
    properties = data_dir / "node-1" / "server.properties"
    properties.write_text(properties.read_text() + "num.partitions=7\n# mine\n")
    moved = tmp_path / "moved"
    shutil.move(data_dir, moved)
    port = free_row()
    with up(moved, port):
        created = call("topic", "create", "orders", "-b", f"127.0.0.1:{port}")
        assert "7 partitions" in created.stderr
        assert (moved / "node-1" / "data" / "orders-6").is_dir()
    text = (moved / "node-1" / "server.properties").read_text()
    assert "# mine" in text
    assert text.count("listeners=PLAINTEXT") == 2
    assert not data_dir.exists()


def test_a_running_data_directory_is_rejected(tmp_path: Path) -> None:
    data_dir, port = tmp_path / "cluster", free_row()
    with up(data_dir, port):
        line = error_line("up", "--data-dir", str(data_dir), "--port", str(free_row()))
        assert f"is already running (pid {node_pid(data_dir)})" in line
        assert "is already running" in error_line("up", "--data-dir", str(data_dir), "--fresh")
        assert f"Cannot bind 127.0.0.1:{port}: address already in use" in error_line(
            "up", "--data-dir", str(tmp_path / "other"), "--port", str(port)
        )
        assert serves(port)


def test_the_death_of_the_only_node_ends_the_command(tmp_path: Path) -> None:
    data_dir, port = tmp_path / "cluster", free_row()
    with up(data_dir, port) as process:
        os.kill(node_pid(data_dir), signal.SIGKILL)
        assert process.wait(START_TIMEOUT_S) == 2
        assert process.stderr is not None
        assert "Node 1 was killed by SIGKILL" in process.stderr.read()
    # The killed node can be restarted.
    with up(data_dir, port):
        assert serves(port)


def test_a_node_of_a_killed_supervisor_is_detected(tmp_path: Path) -> None:
    data_dir, port = tmp_path / "cluster", free_row()
    with up(data_dir, port) as process:
        pid = node_pid(data_dir)
        process.kill()
        process.wait(START_TIMEOUT_S)
        try:
            assert f"is already running (pid {pid})" in error_line(
                "up", "--data-dir", str(data_dir), "--port", str(port)
            )
        finally:
            os.kill(pid, signal.SIGTERM)
            wait_until_gone(pid)
    with up(data_dir, port):
        assert serves(port)


def test_foreign_directories_are_not_touched(tmp_path: Path) -> None:
    foreign = tmp_path / "node-1"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("years of work")
    for options in ((), ("--fresh",)):
        assert "was not created by `odradek up`" in error_line("up", "--data-dir", str(tmp_path), *options)
    assert (foreign / "thesis.tex").read_text() == "years of work"


def test_a_directory_of_another_node_is_rejected(tmp_path: Path) -> None:
    data_dir, port = tmp_path / "cluster", free_row()
    with up(data_dir, port):
        pass
    meta = data_dir / "node-1" / "data" / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=5"))
    assert "belongs to node 5 of cluster" in error_line("up", "--data-dir", str(data_dir), "--port", str(port))


def test_errors_in_an_edited_configuration_are_reported(tmp_path: Path) -> None:
    data_dir, port = tmp_path / "cluster", free_row()
    with up(data_dir, port):
        pass
    properties = data_dir / "node-1" / "server.properties"
    properties.write_text(properties.read_text() + "num.partitions=many\n")
    line = error_line("up", "--data-dir", str(data_dir), "--port", str(port))
    assert f"{properties}:" in line
    assert "num.partitions" in line


def test_a_directory_without_write_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    # Root may write everywhere unless it drops that capability.
    powerless = ["setpriv", "--bounding-set=-all"] if os.geteuid() == 0 else []
    command = [*powerless, *ODRADEK, "up", "--data-dir", str(tmp_path / "cluster")]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60)
    tmp_path.chmod(0o700)
    assert finished.returncode == 2
    assert "Permission denied" in finished.stderr


def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is not a directory" in error_line("up", "--data-dir", str(tmp_path / "file"))


def test_start_needs_formatted_directories_and_free_ports(tmp_path: Path) -> None:
    data_dir, port = tmp_path / "cluster", free_row()
    with up(data_dir, port):
        pass
    properties = data_dir / "node-1" / "server.properties"
    started = call("start", str(properties), "--override", f"log.dirs={tmp_path / 'empty'}")
    assert started.returncode == 2
    assert started.stderr.splitlines()[-1].startswith("error: ")
    with socket.create_server(("127.0.0.1", port)):
        started = call("start", str(properties))
    assert started.returncode == 2
    assert str(port) in started.stderr.splitlines()[-1]


def test_start_runs_until_sigterm(tmp_path: Path) -> None:
    data_dir, port = tmp_path / "cluster", free_row()
    with up(data_dir, port):
        pass
    command = [*ODRADEK, "start", str(data_dir / "node-1" / "server.properties"), "--override", "num.partitions=4"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        assert node.stdout.readline() == f"ready bootstrap=127.0.0.1:{port}\n"
        assert "4 partitions" in call("topic", "create", "t", "-b", f"127.0.0.1:{port}").stderr
        node.send_signal(signal.SIGTERM)
        assert node.wait(START_TIMEOUT_S) == 0

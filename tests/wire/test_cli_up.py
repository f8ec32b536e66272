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
    free_row,
    mistake,
    node_pid,
    remarks,
    up,
    wait_until_gone,
)


def test_a_cluster_from_nothing_and_again(tmp_path: Path) -> None:
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
        # The hints work as they stand.
        for hint in hints[1:3]:
            subprocess.run(hint, shell=True, check=True, capture_output=True, timeout=60)
        process.send_signal(signal.SIGINT)
        assert process.wait(START_TIMEOUT_S) == 0
        assert list(remarks(process)) == []
    wait_until_gone(pid)
    assert not (data_dir / "node-1" / "pid").exists()

    with up(data_dir, port):
        shown = call("consume", "greetings", "-b", bootstrap, "--no-follow")
        assert (shown.returncode, shown.stdout) == (0, "hello\n")

    with up(data_dir, port, "--fresh"):
        assert call("topic", "list", "-b", bootstrap, "--format", "json").stdout == "[]\n"


def test_edits_are_kept_and_the_port_can_change(tmp_path: Path) -> None:
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


def test_one_directory_serves_one_cluster_at_a_time(tmp_path: Path) -> None:
    data_dir, port = tmp_path / "cluster", free_row()
    with up(data_dir, port):
        line = mistake("up", "--data-dir", str(data_dir), "--port", str(free_row()))
        assert f"is running (pid {node_pid(data_dir)})" in line
        assert "is running" in mistake("up", "--data-dir", str(data_dir), "--fresh")
        assert f"port {port} is taken" in mistake("up", "--data-dir", str(tmp_path / "other"), "--port", str(port))
        assert serves(port)


def test_a_node_that_dies_is_told_and_ends_it_all(tmp_path: Path) -> None:
    data_dir, port = tmp_path / "cluster", free_row()
    with up(data_dir, port) as process:
        os.kill(node_pid(data_dir), signal.SIGKILL)
        assert process.wait(START_TIMEOUT_S) == 2
        assert process.stderr is not None
        assert "node 1 was ended by SIGKILL" in process.stderr.read()
    # What was killed comes back.
    with up(data_dir, port):
        assert serves(port)


def test_a_node_whose_supervisor_was_killed_is_found(tmp_path: Path) -> None:
    data_dir, port = tmp_path / "cluster", free_row()
    with up(data_dir, port) as process:
        pid = node_pid(data_dir)
        process.kill()
        process.wait(START_TIMEOUT_S)
        try:
            assert f"is running (pid {pid})" in mistake("up", "--data-dir", str(data_dir), "--port", str(port))
        finally:
            os.kill(pid, signal.SIGTERM)
            wait_until_gone(pid)
    with up(data_dir, port):
        assert serves(port)


def test_directories_that_are_not_ours_are_left_alone(tmp_path: Path) -> None:
    foreign = tmp_path / "node-1"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("years of work")
    for options in ((), ("--fresh",)):
        assert "was not made by `odradek up`" in mistake("up", "--data-dir", str(tmp_path), *options)
    assert (foreign / "thesis.tex").read_text() == "years of work"


def test_a_directory_of_another_node(tmp_path: Path) -> None:
    data_dir, port = tmp_path / "cluster", free_row()
    with up(data_dir, port):
        pass
    meta = data_dir / "node-1" / "data" / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=5"))
    assert "belongs to node 5 of cluster" in mistake("up", "--data-dir", str(data_dir), "--port", str(port))


def test_a_configuration_that_was_broken_by_hand(tmp_path: Path) -> None:
    data_dir, port = tmp_path / "cluster", free_row()
    with up(data_dir, port):
        pass
    properties = data_dir / "node-1" / "server.properties"
    properties.write_text(properties.read_text() + "num.partitions=many\n")
    line = mistake("up", "--data-dir", str(data_dir), "--port", str(port))
    assert f"{properties}:" in line
    assert "num.partitions" in line


def test_a_directory_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    # Root may write everywhere, unless it gives up that right.
    powerless = ["setpriv", "--bounding-set=-all"] if os.geteuid() == 0 else []
    command = [*powerless, *ODRADEK, "up", "--data-dir", str(tmp_path / "cluster")]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60)
    tmp_path.chmod(0o700)
    assert finished.returncode == 2
    assert "no permission for" in finished.stderr


def test_a_path_that_cannot_be_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is not a directory" in mistake("up", "--data-dir", str(tmp_path / "file"))


def test_start_needs_formatted_directories_of_its_own(tmp_path: Path) -> None:
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


def test_start_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
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

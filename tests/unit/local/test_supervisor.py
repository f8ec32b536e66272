import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.local.node_files import NodeFiles
from odradek.local.supervisor import NodeExited, Supervisor

pytestmark = pytest.mark.timeout(120)

# A fake node: it runs its configuration file as a Python program.
COMMAND = (sys.executable, "-u")
READY = "print('ready bootstrap=x')\n"
WAIT = "import signal\nwhile True: signal.pause()\n"
READY_THEN_WAIT = READY + WAIT


def node(tmp_path: Path, program: str, number: int = 1) -> NodeFiles:
    files = NodeFiles(tmp_path, number)
    files.directory.mkdir(parents=True)
    files.properties.write_text(program)
    return files


def run(
    nodes: list[NodeFiles], on_ready: Callable[[], None], wait_until_serving: Callable[[], None] = lambda: None
) -> None:
    asyncio.run(Supervisor(nodes, wait_until_serving=wait_until_serving, on_ready=on_ready, command=COMMAND).run())


def stop_me() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def run_once(condition: Callable[[], bool], act: Callable[[], None]) -> None:
    """Run `act` in a thread once the condition holds. If it never does, the test times out."""

    def wait_and_act() -> None:
        while not condition():
            time.sleep(0.01)
        act()

    threading.Thread(target=wait_and_act, daemon=True).start()


def is_reported(files: NodeFiles) -> Callable[[], bool]:
    return lambda: not files.pid.exists()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_ready_follows_all_nodes_and_the_serving_check(tmp_path: Path) -> None:
    nodes = [node(tmp_path, READY_THEN_WAIT, number) for number in (1, 2)]
    order: list[str] = []
    pids: list[int] = []

    def on_ready() -> None:
        order.append("ready")
        pids.extend(int(files.pid.read_text()) for files in nodes)
        stop_me()

    run(nodes, on_ready, wait_until_serving=lambda: order.append("serving"))
    assert order == ["serving", "ready"]
    assert not any(map(is_alive, pids))
    assert not any(files.pid.exists() for files in nodes)


def test_a_stop_does_not_wait_for_the_serving_check(tmp_path: Path) -> None:
    files = node(tmp_path, READY_THEN_WAIT)
    never = threading.Event()

    def wait_until_serving() -> None:
        stop_me()
        never.wait()

    run([files], lambda: pytest.fail("it never served"), wait_until_serving)
    assert not files.pid.exists()
    never.set()


def test_a_logged_error_is_quoted_in_one_line(tmp_path: Path) -> None:
    program = "import sys\nsys.stderr.write('other things\\nerror: port 9092 is taken\\n')\nsys.exit(2)"
    with pytest.raises(NodeExited) as caught:
        run([node(tmp_path, program)], lambda: pytest.fail("it was never ready"))
    assert str(caught.value) == "Node 1: port 9092 is taken."


DYING = READY + "import os, sys\nfor n in range(50): print('line', n, file=sys.stderr)\nos.kill(os.getpid(), 9)\n"


def test_a_killed_node_is_reported_with_its_last_log_lines(tmp_path: Path) -> None:
    files = node(tmp_path, DYING)
    with pytest.raises(NodeExited) as caught:
        run([files], lambda: None)
    first, *lines = str(caught.value).splitlines()
    assert "Node 1 was killed by SIGKILL" in first
    assert lines[-1] == "line 49"
    assert len(lines) == 12
    assert not files.pid.exists()


def test_an_exit_before_all_are_ready_stops_the_others(tmp_path: Path) -> None:
    mistaken = "import sys\nsys.stderr.write('error: port 9092 is taken\\n')\nsys.exit(2)"
    nodes = [node(tmp_path, READY_THEN_WAIT, 1), node(tmp_path, mistaken, 2)]
    with pytest.raises(NodeExited, match=r"^Node 2: port 9092 is taken\.$"):
        run(nodes, lambda: pytest.fail("it was never ready"))
    assert not any(files.pid.exists() for files in nodes)


def killed_nodes(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The reports of killed nodes. On a slow computer, others say that a node is still starting."""
    return [line for line in capsys.readouterr().err.splitlines() if " was killed by " in line]


def test_a_later_exit_leaves_the_other_nodes_running(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [node(tmp_path, READY_THEN_WAIT, number) for number in (1, 2, 3)]
    first_pid: list[int] = []

    def on_ready() -> None:
        first_pid.append(int(nodes[0].pid.read_text()))
        os.kill(int(nodes[1].pid.read_text()), signal.SIGKILL)
        run_once(is_reported(nodes[1]), check_and_stop)

    def check_and_stop() -> None:
        assert is_alive(first_pid[0])
        stop_me()

    run(nodes, on_ready)
    (line,) = killed_nodes(capsys)
    assert line.startswith("Node 2 was killed by SIGKILL")
    assert line.endswith(f"Restart the node with `odradek start {nodes[1].properties}`.")
    assert not is_alive(first_pid[0])


def test_the_exit_of_the_last_node_ends_the_supervisor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [node(tmp_path, READY_THEN_WAIT, number) for number in (1, 2)]

    def on_ready() -> None:
        first, second = (int(files.pid.read_text()) for files in nodes)
        os.kill(first, signal.SIGKILL)
        run_once(is_reported(nodes[0]), lambda: os.kill(second, signal.SIGKILL))

    with pytest.raises(NodeExited, match="Node 2 was killed by SIGKILL"):
        run(nodes, on_ready)
    (line,) = killed_nodes(capsys)
    assert line.startswith("Node 1 was killed by SIGKILL")


def test_stop_first_nodes_stop_before_the_others(tmp_path: Path) -> None:
    record = tmp_path / "order"
    slow = (
        "import signal, sys, time\n"
        "def stop(*_):\n    time.sleep({pause})\n    open({record!r}, 'a').write('{name} ')\n    sys.exit(0)\n"
        "signal.signal(15, stop)\n" + READY + WAIT
    )
    nodes = [
        node(tmp_path, slow.format(pause=0, record=str(record), name="controller"), 1),
        node(tmp_path, slow.format(pause=0.3, record=str(record), name="broker"), 2),
        node(tmp_path, slow.format(pause=0.3, record=str(record), name="broker"), 3),
    ]
    supervisor_arguments = {"wait_until_serving": lambda: None, "on_ready": stop_me, "command": COMMAND}
    asyncio.run(_run_with_order(nodes, {2, 3}, supervisor_arguments))
    assert record.read_text() == "broker broker controller "


STOPS_AFTER_THE_OTHER = """\
import pathlib, signal, sys, time
def stop(*_):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and not pathlib.Path({other!r}).exists():
        time.sleep(0.01)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
pathlib.Path({started!r}).touch()
"""
RECORDS_ITS_STOP = """\
import pathlib, signal, sys, time
def stop(*_):
    pathlib.Path({record!r}).write_text(str(time.monotonic()))
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
pathlib.Path({started!r}).touch()
"""


def test_a_broker_that_is_not_ready_stops_together_with_the_others(tmp_path: Path) -> None:
    started, record = [tmp_path / "first", tmp_path / "second"], tmp_path / "record"
    controller = RECORDS_ITS_STOP.format(record=str(record), started=str(started[0])) + READY + WAIT
    broker = STOPS_AFTER_THE_OTHER.format(other=str(record), started=str(started[1])) + WAIT
    nodes = [node(tmp_path, controller, 1), node(tmp_path, broker, 2)]
    run_once(lambda: all(one.exists() for one in started), stop_me)
    arguments = {"wait_until_serving": lambda: None, "on_ready": lambda: None, "command": COMMAND}
    began_at = time.monotonic()
    asyncio.run(_run_with_order(nodes, {2}, arguments))
    # Otherwise the broker gives up after ten seconds, and only then the controller receives the signal.
    assert float(record.read_text()) - began_at < 10


def test_a_second_signal_kills_nodes_that_have_not_been_stopped_yet(tmp_path: Path) -> None:
    stubborn = "import signal\nsignal.signal(15, signal.SIG_IGN)\n" + READY + WAIT
    nodes = [node(tmp_path, READY_THEN_WAIT, 1), node(tmp_path, stubborn, 2)]

    def on_ready() -> None:
        stop_me()
        threading.Timer(0.2, stop_me).start()

    asyncio.run(
        _run_with_order(nodes, {2}, {"wait_until_serving": lambda: None, "on_ready": on_ready, "command": COMMAND})
    )
    assert not any(files.pid.exists() for files in nodes)


async def _run_with_order(nodes: list[NodeFiles], stop_first: set[int], arguments: dict[str, Any]) -> None:
    await Supervisor(nodes, stop_first=stop_first, **arguments).run()


def test_an_exit_without_log_lines_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NodeExited, match=r"exited with code 3 without writing to its log"):
        run([node(tmp_path, "import sys; sys.exit(3)")], lambda: None)


def test_stopping_before_nodes_are_ready(tmp_path: Path) -> None:
    files = node(tmp_path, WAIT)
    # By then the supervisor handles signals.
    run_once(files.pid.exists, stop_me)
    run([files], lambda: pytest.fail("it was never ready"))
    assert not files.pid.exists()


def test_a_second_signal_kills_the_nodes(tmp_path: Path) -> None:
    stubborn = "import signal\nsignal.signal(15, signal.SIG_IGN)\n" + READY + WAIT

    def on_ready() -> None:
        stop_me()
        threading.Timer(0.2, stop_me).start()

    run([node(tmp_path, stubborn)], on_ready)


def test_much_output_does_not_block_a_node(tmp_path: Path) -> None:
    talkative = f"for _ in range(20000): print('x' * 50)\nopen({str(tmp_path / 'done')!r}, 'w').close()\n"
    files = node(tmp_path, READY + talkative + WAIT)

    async def wait_until_done() -> None:
        supervisor = Supervisor([files], wait_until_serving=lambda: None, on_ready=lambda: None, command=COMMAND)
        running = asyncio.ensure_future(supervisor.run())
        while not (tmp_path / "done").exists():
            await asyncio.sleep(0.02)
        stop_me()
        await running

    asyncio.run(asyncio.wait_for(wait_until_done(), 20))


def test_nodes_are_stopped_if_the_cluster_does_not_serve(tmp_path: Path) -> None:
    def refuse() -> None:
        raise LookupError("no broker responded")

    files = node(tmp_path, READY_THEN_WAIT)
    with pytest.raises(LookupError):
        run([files], lambda: None, wait_until_serving=refuse)
    assert not files.pid.exists()


def test_the_companion_runs_from_ready_to_stop(tmp_path: Path) -> None:
    order: list[str] = []

    async def companion() -> None:
        order.append("started")
        try:
            stop_me()
            await asyncio.Event().wait()
        finally:
            order.append("stopped")

    supervisor = Supervisor(
        [node(tmp_path, READY_THEN_WAIT)],
        wait_until_serving=lambda: order.append("serving"),
        on_ready=lambda: order.append("ready"),
        run_alongside=companion,
        command=COMMAND,
    )
    asyncio.run(supervisor.run())
    assert order == ["serving", "ready", "started", "stopped"]

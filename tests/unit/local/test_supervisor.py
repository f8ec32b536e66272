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
from odradek.local.supervise import NodeEnded, Supervisor

pytestmark = pytest.mark.timeout(120)

# Stands for a node: it does what its configuration, a Python program here, says.
COMMAND = (sys.executable, "-u")
READY = "print('ready bootstrap=x')\n"
WAIT = "import signal\nwhile True: signal.pause()\n"
READY_THEN_WAIT = READY + WAIT


def node(tmp_path: Path, program: str, number: int = 1) -> NodeFiles:
    files = NodeFiles(tmp_path, number)
    files.directory.mkdir(parents=True)
    files.properties.write_text(program)
    return files


def run(nodes: list[NodeFiles], on_ready: Callable[[], None], serves: Callable[[], None] = lambda: None) -> None:
    asyncio.run(Supervisor(nodes, serves=serves, on_ready=on_ready, command=COMMAND).run())


def stop_me() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def once(happened: Callable[[], bool], act: Callable[[], None]) -> None:
    """Beside the supervisor, in a thread. If it never happens, the test's timeout tells."""

    def wait_and_act() -> None:
        while not happened():
            time.sleep(0.01)
        act()

    threading.Thread(target=wait_and_act, daemon=True).start()


def is_told_gone(files: NodeFiles) -> Callable[[], bool]:
    return lambda: not files.pid.exists()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_ready_comes_after_every_node_and_after_the_question(tmp_path: Path) -> None:
    nodes = [node(tmp_path, READY_THEN_WAIT, number) for number in (1, 2)]
    order: list[str] = []
    pids: list[int] = []

    def on_ready() -> None:
        order.append("ready")
        pids.extend(int(files.pid.read_text()) for files in nodes)
        stop_me()

    run(nodes, on_ready, serves=lambda: order.append("asked"))
    assert order == ["asked", "ready"]
    assert not any(map(is_alive, pids))
    assert not any(files.pid.exists() for files in nodes)


def test_a_node_that_names_its_mistake_is_quoted_in_one_line(tmp_path: Path) -> None:
    program = "import sys\nsys.stderr.write('other things\\nerror: port 9092 is taken\\n')\nsys.exit(2)"
    with pytest.raises(NodeEnded) as caught:
        run([node(tmp_path, program)], lambda: pytest.fail("it never was ready"))
    assert str(caught.value) == "node 1: port 9092 is taken"


DYING = READY + "import os, sys\nfor n in range(50): print('line', n, file=sys.stderr)\nos.kill(os.getpid(), 9)\n"


def test_a_node_that_dies_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    files = node(tmp_path, DYING)
    with pytest.raises(NodeEnded) as caught:
        run([files], lambda: None)
    first, *lines = str(caught.value).splitlines()
    assert "node 1 was ended by SIGKILL" in first
    assert lines[-1] == "line 49"
    assert len(lines) == 12
    assert not files.pid.exists()


def test_a_node_that_dies_before_all_are_ready_stops_the_others(tmp_path: Path) -> None:
    mistaken = "import sys\nsys.stderr.write('error: port 9092 is taken\\n')\nsys.exit(2)"
    nodes = [node(tmp_path, READY_THEN_WAIT, 1), node(tmp_path, mistaken, 2)]
    with pytest.raises(NodeEnded, match=r"^node 2: port 9092 is taken$"):
        run(nodes, lambda: pytest.fail("it never was ready"))
    assert not any(files.pid.exists() for files in nodes)


def test_when_a_node_dies_later_the_others_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [node(tmp_path, READY_THEN_WAIT, number) for number in (1, 2, 3)]
    first_pid: list[int] = []

    def on_ready() -> None:
        first_pid.append(int(nodes[0].pid.read_text()))
        os.kill(int(nodes[1].pid.read_text()), signal.SIGKILL)
        once(is_told_gone(nodes[1]), look_and_stop)

    def look_and_stop() -> None:
        assert is_alive(first_pid[0])
        stop_me()

    run(nodes, on_ready)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("node 2 was ended by SIGKILL")
    assert line.endswith(f"`odradek start {nodes[1].properties}` brings it back")
    assert not is_alive(first_pid[0])


def test_the_last_one_to_die_ends_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [node(tmp_path, READY_THEN_WAIT, number) for number in (1, 2)]

    def on_ready() -> None:
        first, second = (int(files.pid.read_text()) for files in nodes)
        os.kill(first, signal.SIGKILL)
        once(is_told_gone(nodes[0]), lambda: os.kill(second, signal.SIGKILL))

    with pytest.raises(NodeEnded, match="node 2 was ended by SIGKILL"):
        run(nodes, on_ready)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("node 1 was ended by SIGKILL")


def test_some_stop_before_the_others(tmp_path: Path) -> None:
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
    supervisor_arguments = {"serves": lambda: None, "on_ready": stop_me, "command": COMMAND}
    asyncio.run(_run_with_order(nodes, {2, 3}, supervisor_arguments))
    assert record.read_text() == "broker broker controller "


def test_a_second_signal_reaches_those_that_wait_for_their_turn(tmp_path: Path) -> None:
    stubborn = "import signal\nsignal.signal(15, signal.SIG_IGN)\n" + READY + WAIT
    nodes = [node(tmp_path, READY_THEN_WAIT, 1), node(tmp_path, stubborn, 2)]

    def on_ready() -> None:
        stop_me()
        threading.Timer(0.2, stop_me).start()

    asyncio.run(_run_with_order(nodes, {2}, {"serves": lambda: None, "on_ready": on_ready, "command": COMMAND}))
    assert not any(files.pid.exists() for files in nodes)


async def _run_with_order(nodes: list[NodeFiles], stop_first: set[int], arguments: dict[str, Any]) -> None:
    await Supervisor(nodes, stop_first=stop_first, **arguments).run()


def test_a_silent_death(tmp_path: Path) -> None:
    with pytest.raises(NodeEnded, match=r"ended with exit code 3, and left nothing in its log"):
        run([node(tmp_path, "import sys; sys.exit(3)")], lambda: None)


def test_stopping_before_it_was_ready(tmp_path: Path) -> None:
    files = node(tmp_path, WAIT)
    # By then the supervisor listens to signals.
    once(files.pid.exists, stop_me)
    run([files], lambda: pytest.fail("it never was ready"))
    assert not files.pid.exists()


def test_a_second_signal_does_not_wait_any_longer(tmp_path: Path) -> None:
    stubborn = "import signal\nsignal.signal(15, signal.SIG_IGN)\n" + READY + WAIT

    def on_ready() -> None:
        stop_me()
        threading.Timer(0.2, stop_me).start()

    run([node(tmp_path, stubborn)], on_ready)


def test_a_node_that_writes_much_is_not_held_up(tmp_path: Path) -> None:
    talkative = f"for _ in range(20000): print('x' * 50)\nopen({str(tmp_path / 'done')!r}, 'w').close()\n"
    files = node(tmp_path, READY + talkative + WAIT)

    async def until_done() -> None:
        supervisor = Supervisor([files], serves=lambda: None, on_ready=lambda: None, command=COMMAND)
        running = asyncio.ensure_future(supervisor.run())
        while not (tmp_path / "done").exists():
            await asyncio.sleep(0.02)
        stop_me()
        await running

    asyncio.run(asyncio.wait_for(until_done(), 20))


def test_a_cluster_that_does_not_answer_is_stopped(tmp_path: Path) -> None:
    def refuse() -> None:
        raise LookupError("no broker answered")

    files = node(tmp_path, READY_THEN_WAIT)
    with pytest.raises(LookupError):
        run([files], lambda: None, serves=refuse)
    assert not files.pid.exists()


def test_what_is_beside_the_nodes_begins_when_they_serve_and_ends_with_them(tmp_path: Path) -> None:
    order: list[str] = []

    async def beside() -> None:
        order.append("beside")
        try:
            stop_me()
            await asyncio.Event().wait()
        finally:
            order.append("ended")

    supervisor = Supervisor(
        [node(tmp_path, READY_THEN_WAIT)],
        serves=lambda: order.append("asked"),
        on_ready=lambda: order.append("ready"),
        beside=beside,
        command=COMMAND,
    )
    asyncio.run(supervisor.run())
    assert order == ["asked", "ready", "beside", "ended"]

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.cli.node_files import NodeFiles
from odradek.cli.supervise import NodeEnded, Supervisor

pytestmark = pytest.mark.timeout(30)

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


def test_a_node_that_dies_is_told_with_the_end_of_its_log_and_stops_the_others(tmp_path: Path) -> None:
    dying = READY + "import os, sys\nfor n in range(50): print('line', n, file=sys.stderr)\nos.kill(os.getpid(), 9)\n"
    nodes = [node(tmp_path, READY_THEN_WAIT, 1), node(tmp_path, dying, 2)]
    with pytest.raises(NodeEnded) as caught:
        run(nodes, lambda: None)
    first, *lines = str(caught.value).splitlines()
    assert "node 2 was ended by SIGKILL" in first
    assert lines[-1] == "line 49"
    assert len(lines) == 12
    assert not any(files.pid.exists() for files in nodes)


def test_a_silent_death(tmp_path: Path) -> None:
    with pytest.raises(NodeEnded, match=r"ended with exit code 3, and left nothing in its log"):
        run([node(tmp_path, "import sys; sys.exit(3)")], lambda: None)


def test_stopping_before_it_was_ready(tmp_path: Path) -> None:
    files = node(tmp_path, WAIT)
    threading.Timer(0.3, stop_me).start()
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

"""Workers in processes: messages, errors, crashes, and processes that end when they are no longer needed."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.base.errors import ErrorCode, KafkaError, WorkerFailed
from odradek.base.ports import Message, Pool, WorkerTask
from odradek.host import worker_processes
from odradek.host.disk import HostDisk
from odradek.host.executor import ThreadExecutor
from odradek.host.worker_processes import SMALL_BYTES_MAX, WorkerProcesses
from odradek.node.thread_workers import ThreadWorkers
from tests.components import ROOT
from tests.unit.host import example_worker

LARGE = SMALL_BYTES_MAX + 1
TIMEOUT_S = 60.0
COMMAND = [sys.executable, "-m", "tests.unit.host.example_worker"]


def start(workers: WorkerProcesses, data: bytes = b"", **fields: Any) -> WorkerTask:
    return workers.start(Pool.COMPACTION, Message(fields, data), input_bytes=LARGE)


async def all_messages(task: WorkerTask) -> list[Message]:
    messages = []
    while (message := await task.next()) is not None:
        messages.append(message)
    return messages


def run(scenario: Callable[[WorkerProcesses], Awaitable[None]], size: int = 2) -> None:
    async def main() -> None:
        executor = ThreadExecutor(dict.fromkeys(Pool, 2))
        in_threads = ThreadWorkers(executor, HostDisk(), lambda _: example_worker.run)
        workers = WorkerProcesses(executor, in_threads, sizes=dict.fromkeys(Pool, size), command=COMMAND)
        try:
            await asyncio.wait_for(scenario(workers), TIMEOUT_S)
        finally:
            workers.close()
            executor.close()

    asyncio.run(main())


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_task_runs_in_a_process_that_later_tasks_reuse() -> None:
    async def scenario(workers: WorkerProcesses) -> None:
        data = os.urandom(3_000_000)
        first, *numbers = await all_messages(start(workers, data, text="ä", count=3))
        assert first.data == data
        assert first.fields["echo"] == {"text": "ä", "count": 3}
        assert first.fields["pool"] == "compaction"
        assert [message.fields["number"] for message in numbers] == [0, 1, 2]
        (second,) = await all_messages(start(workers))
        assert second.fields["pid"] == first.fields["pid"] != os.getpid()

    run(scenario)


def test_small_input_is_not_worth_a_process() -> None:
    async def scenario(workers: WorkerProcesses) -> None:
        task = workers.start(Pool.COMPACTION, Message({"count": 2}), input_bytes=SMALL_BYTES_MAX)
        first, *numbers = await all_messages(task)
        assert first.fields["pid"] == os.getpid()
        assert len(numbers) == 2

    run(scenario)


def test_errors_of_a_task_keep_their_meaning(tmp_path: Path) -> None:
    async def scenario(workers: WorkerProcesses) -> None:
        with pytest.raises(KafkaError, match="no batch") as kafka_error:
            await all_messages(start(workers, then="kafka error"))
        assert kafka_error.value.code is ErrorCode.corrupt_message
        missing = str(tmp_path / "missing")
        with pytest.raises(FileNotFoundError) as missing_file:
            await all_messages(start(workers, then="missing file", path=missing))
        assert missing_file.value.filename == missing
        with pytest.raises(WorkerFailed, match="ValueError: wrong"):
            await all_messages(start(workers, then="bug"))
        # The process survives all of them.
        assert len(await all_messages(start(workers, count=1))) == 2

    run(scenario)


def test_dead_process_fails_only_its_task() -> None:
    async def scenario(workers: WorkerProcesses) -> None:
        other = start(workers, count=1)
        assert await other.next() is not None
        with pytest.raises(WorkerFailed, match="exit code -9"):
            await all_messages(start(workers, then="die"))
        assert len(await all_messages(other)) == 1
        assert len(await all_messages(start(workers, count=1))) == 2

    run(scenario)


def test_process_that_died_idle_fails_one_task() -> None:
    async def scenario(workers: WorkerProcesses) -> None:
        (message,) = await all_messages(start(workers))
        os.kill(message.fields["pid"], signal.SIGKILL)
        await until(lambda: not is_running(message.fields["pid"]))
        with pytest.raises(WorkerFailed):
            await start(workers).next()
        assert await start(workers).next() is not None

    run(scenario)


def test_program_that_cannot_be_started_fails_its_task() -> None:
    async def scenario(workers: WorkerProcesses) -> None:
        broken = WorkerProcesses(
            ThreadExecutor(dict.fromkeys(Pool, 1)), workers, sizes={Pool.COMPACTION: 1}, command=["/missing/python"]
        )
        with pytest.raises(WorkerFailed, match="/missing/python"):
            await start(broken).next()
        broken.close()

    run(scenario)


def test_tasks_wait_for_one_of_a_bounded_number_of_processes() -> None:
    async def scenario(workers: WorkerProcesses) -> None:
        first, second = start(workers, count=1), start(workers)
        message = await first.next()
        waiting = asyncio.ensure_future(second.next())
        await first.next()
        assert not waiting.done()
        assert await first.next() is None
        following = await waiting
        assert message is not None and following is not None
        assert following.fields["pid"] == message.fields["pid"]

    run(scenario, size=1)


def test_closed_task_cleans_up_and_frees_its_process(tmp_path: Path) -> None:
    closed = tmp_path / "closed"

    async def scenario(workers: WorkerProcesses) -> None:
        task = start(workers, count=5, closed=str(closed))
        message = await task.next()
        task.close()
        task.close()
        following = await start(workers).next()
        assert closed.exists()
        assert message is not None and following is not None
        assert following.fields["pid"] == message.fields["pid"]

    run(scenario, size=1)


def test_cancelled_task_ends_its_process(tmp_path: Path) -> None:
    hanging = tmp_path / "hanging"

    async def scenario(workers: WorkerProcesses) -> None:
        task = start(workers, then="hang", path=str(hanging))
        message = await task.next()
        assert message is not None
        waiting = asyncio.ensure_future(task.next())
        await until(hanging.exists)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        task.close()
        await until(lambda: not is_running(message.fields["pid"]))
        assert await start(workers).next() is not None

    run(scenario, size=1)


def test_idle_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_processes, "IDLE_SECONDS", 0.05)

    async def scenario(workers: WorkerProcesses) -> None:
        (message,) = await all_messages(start(workers))
        await until(lambda: not is_running(message.fields["pid"]))
        assert await start(workers).next() is not None

    run(scenario)


def test_close_ends_working_and_idle_processes(tmp_path: Path) -> None:
    hanging = tmp_path / "hanging"
    pids: list[int] = []

    async def scenario(workers: WorkerProcesses) -> None:
        task = start(workers, then="hang", path=str(hanging))
        for message in (await task.next(), await start(workers).next()):
            assert message is not None
            pids.append(message.fields["pid"])
        waiting = asyncio.ensure_future(task.next())
        await until(hanging.exists)
        workers.close()
        with pytest.raises(WorkerFailed):
            await waiting
        with pytest.raises(WorkerFailed, match="stopping"):
            await start(workers).next()

    run(scenario)
    assert len(set(pids)) == 2
    asyncio.run(until(lambda: not any(map(is_running, pids))))


def test_process_ends_with_its_parent_even_if_it_is_working(tmp_path: Path) -> None:
    hanging = tmp_path / "hanging"
    parent = subprocess.Popen(
        [sys.executable, "-m", "tests.unit.host.example_parent", str(hanging)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        asyncio.run(until(hanging.exists))
        assert is_running(pid)
    finally:
        parent.kill()
        parent.communicate()
    asyncio.run(until(lambda: not is_running(pid)))

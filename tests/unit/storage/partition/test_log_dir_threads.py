"""A disk that hangs keeps no caller waiting, and no thread of another log dir."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Pool
from odradek.host.executor import ThreadExecutor
from odradek.storage.partition.log_dir_threads import WRITER_LANE, LogDirThreads

HANGS = OSError(110, "The disk does not respond")


@pytest.fixture
def executor() -> Iterator[ThreadExecutor]:
    executor = ThreadExecutor(dict.fromkeys(Pool, 2))
    yield executor
    executor.close()


class HungDisk:
    def __init__(self, executor: ThreadExecutor) -> None:
        self.threads = LogDirThreads("/hung", executor.for_directory("/hung"))
        self._responds = threading.Event()

    def call(self) -> None:
        self._responds.wait(60)

    def respond(self) -> None:
        self._responds.set()


@pytest.fixture
def disk(executor: ThreadExecutor) -> Iterator[HungDisk]:
    disk = HungDisk(executor)
    yield disk
    disk.respond()


async def start(*work: "asyncio.Future[None]") -> None:
    await asyncio.wait(work, timeout=0.05)
    assert not any(one.done() for one in work)


def test_jobs_of_other_log_dirs_run_beside_a_hung_disk(executor: ThreadExecutor, disk: HungDisk) -> None:
    other = LogDirThreads("/other", executor.for_directory("/other"))

    async def scenario() -> None:
        for pool in Pool:
            waiting = [asyncio.ensure_future(disk.threads.run(disk.call, pool=pool)) for _ in range(3)]
            await start(*waiting)
            assert await other.run(lambda: 1, pool=pool) == 1
            for one in waiting:
                one.cancel()

    asyncio.run(scenario())


def test_all_jobs_of_a_disk_that_hangs_fail_also_those_in_its_threads(disk: HungDisk) -> None:
    async def scenario() -> None:
        jobs = [
            asyncio.ensure_future(disk.threads.run(disk.call, lane=WRITER_LANE)),
            asyncio.ensure_future(disk.threads.run(lambda: None, lane=WRITER_LANE)),
            asyncio.ensure_future(disk.threads.run(disk.call, pool=Pool.SYNC)),
        ]
        await start(*jobs)
        disk.threads.fail(HANGS)
        assert await asyncio.gather(*jobs, return_exceptions=True) == [HANGS, HANGS, HANGS]
        with pytest.raises(OSError, match="does not respond"):
            await disk.threads.run(lambda: None)
        disk.respond()

    asyncio.run(scenario())


def test_reads_of_a_stalled_disk_end_and_writes_wait(disk: HungDisk) -> None:
    async def scenario() -> None:
        read = asyncio.ensure_future(disk.threads.run(disk.call, pool=Pool.READ))
        write = asyncio.ensure_future(disk.threads.run(disk.call, lane=WRITER_LANE))
        await start(read, write)
        disk.threads.on_stall()
        with pytest.raises(KafkaError) as raised:
            await read
        assert raised.value.code is ErrorCode.kafka_storage_error
        await start(write)
        disk.respond()
        await write

    asyncio.run(scenario())


def test_results_errors_and_cancellation_pass_through(executor: ThreadExecutor) -> None:
    threads = LogDirThreads("/d", executor.for_directory("/d"))

    def fail() -> None:
        raise FileNotFoundError

    async def scenario() -> None:
        assert await threads.run(lambda: 7) == 7
        with pytest.raises(FileNotFoundError):
            await threads.run(fail)
        release = threading.Event()
        cancelled = asyncio.ensure_future(threads.run(lambda: release.wait(60)))
        await asyncio.sleep(0.01)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        release.set()
        await asyncio.sleep(0.01)
        # No job is left that would make the disk suspicious.
        assert not threads.health._jobs

    asyncio.run(scenario())


def test_process_does_not_wait_for_abandoned_threads(executor: ThreadExecutor, disk: HungDisk) -> None:
    async def scenario() -> None:
        job = asyncio.ensure_future(disk.threads.run(disk.call))
        await start(job)
        executor.abandon("/hung")
        executor.close()
        assert executor.has_abandoned_threads
        job.cancel()

    assert not executor.has_abandoned_threads
    asyncio.run(scenario())

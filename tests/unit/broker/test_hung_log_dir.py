"""Role changes of partitions whose disk stalls or hangs delay no other change, and end with the log dir."""

import asyncio
from pathlib import Path

import pytest

from odradek.base.errors import ErrorCode
from odradek.broker.cleaning import Cleaning
from odradek.core.metadata.difference import difference
from odradek.host.disk import HostDisk
from odradek.storage.log.log_dir_health import Verdict
from odradek.storage.partition.log_dir_threads import LogDirThreads
from tests.unit.broker.test_broker import NODE_ID, Stage

HANGS = OSError(110, "The disk does not respond")


class HungStage(Stage):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.threads_of: dict[str, LogDirThreads] = {}
        self.broker.threads_of = self.one_per_dir  # type: ignore[misc]

    def one_per_dir(self, log_dir: str) -> LogDirThreads:
        return self.threads_of.setdefault(log_dir, LogDirThreads(log_dir, self.threads))


def stall(threads: LogDirThreads) -> None:
    for second in range(1000):
        if threads.health.tick(float(second)) is Verdict.STALLED:
            return
    raise AssertionError("the disk has no job that would make it stall")


def test_role_change_does_not_wait_for_a_stalled_disk(tmp_path: Path) -> None:
    async def scenario() -> None:
        stage = HungStage(tmp_path)
        partition = await stage.lead()
        stage.threads.may_run.clear()
        writing = asyncio.ensure_future(partition.run_exclusively(lambda: None))
        await asyncio.sleep(0.01)
        stall(partition.threads)
        image = stage.with_leader(2)
        await asyncio.wait_for(stage.broker.on_image(image, difference(stage.image, image)), 10)
        assert partition.leader_id == NODE_ID
        # It follows when the disk responds.
        partition.threads.health.on_probe_end()
        stage.threads.may_run.set()
        await writing
        await partition.wait_for_idle()
        assert partition.leader_id == 2
        await stage.broker.stop()

    asyncio.run(scenario())


def test_role_change_that_waits_for_a_hung_disk_ends_with_its_log_dir(tmp_path: Path) -> None:
    async def scenario() -> None:
        stage = HungStage(tmp_path)
        partition = await stage.lead()
        stage.threads.may_run.clear()
        writing = asyncio.ensure_future(partition.run_exclusively(lambda: None))
        await asyncio.sleep(0.01)
        image = stage.with_leader(2)
        change = asyncio.ensure_future(stage.broker.on_image(image, difference(stage.image, image)))
        await asyncio.sleep(0)
        partition.threads.fail(HANGS)
        stage.broker.fail_log_dir(partition.log_dir, HANGS)
        await change
        assert await asyncio.gather(writing, return_exceptions=True) == [HANGS]
        assert partition.unavailable is ErrorCode.kafka_storage_error
        stage.threads.may_run.set()
        await stage.broker.stop()

    asyncio.run(scenario())


def test_cleaner_writes_its_checkpoint_in_threads_of_the_log_dir(tmp_path: Path) -> None:
    """The deletion of a partition waits for it, and so does the metadata that follows."""

    async def scenario() -> None:
        stage = HungStage(tmp_path)
        partition = await stage.lead()
        cleaning = Cleaning(stage.broker, HostDisk())
        cleaning._cleaner._clean_offsets[partition.log_dir][partition.name] = 1
        partition.threads.fail(HANGS)
        with pytest.raises(OSError, match="does not respond"):
            await cleaning._cleaner.forget(partition.log_dir, partition.name)
        await stage.broker.stop()

    asyncio.run(scenario())

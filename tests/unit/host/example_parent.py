"""Starts a worker that works forever, prints its process ID, and waits."""

import asyncio
import sys

from odradek.base.ports import Message, Pool
from odradek.host.disk import HostDisk
from odradek.host.executor import ThreadExecutor
from odradek.host.worker_processes import SMALL_BYTES_MAX, WorkerProcesses
from odradek.node.thread_workers import ThreadWorkers
from tests.unit.host import example_worker


async def main(path: str) -> None:
    executor = ThreadExecutor(dict.fromkeys(Pool, 1))
    workers = WorkerProcesses(
        executor,
        ThreadWorkers(executor, HostDisk(), lambda _: example_worker.run),
        sizes=dict.fromkeys(Pool, 1),
        command=[sys.executable, "-m", "tests.unit.host.example_worker"],
    )
    task = workers.start(Pool.COMPACTION, Message({"then": "hang", "path": path}), input_bytes=SMALL_BYTES_MAX + 1)
    message = await task.next()
    assert message is not None
    print(message.fields["pid"], flush=True)
    await task.next()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

"""Each pool has threads of its own, a bounded number."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from odradek.base.ports import Pool
from odradek.host.executor import ThreadExecutor

SIZE = 3


@pytest.fixture
def executor() -> Iterator[ThreadExecutor]:
    executor = ThreadExecutor(dict.fromkeys(Pool, SIZE))
    yield executor
    executor.close()


@pytest.mark.parametrize("busy", Pool)
def test_full_pool_delays_no_other_pool(executor: ThreadExecutor, busy: Pool) -> None:
    may_end = threading.Event()

    async def scenario() -> None:
        blocked = [asyncio.ensure_future(executor.run(lambda: may_end.wait(60), pool=busy)) for _ in range(2 * SIZE)]
        try:
            for pool in Pool:
                if pool is not busy:
                    name = await asyncio.wait_for(executor.run(_thread_name, pool=pool), 30)
                    assert name.startswith(f"odradek-{pool.value}")
            assert not any(job.done() for job in blocked)
        finally:
            may_end.set()
        assert all(await asyncio.gather(*blocked))

    asyncio.run(scenario())


def test_pool_starts_no_more_threads_than_its_size(executor: ThreadExecutor) -> None:
    # No job ends before every thread of the pool has one.
    together = threading.Barrier(SIZE)

    def work() -> str:
        together.wait(30)
        return _thread_name()

    async def scenario() -> set[str]:
        return set(await asyncio.gather(*(executor.run(work, pool=Pool.READ) for _ in range(3 * SIZE))))

    assert len(asyncio.run(scenario())) == SIZE


def test_jobs_of_a_lane_run_in_one_thread_whatever_their_pool(executor: ThreadExecutor) -> None:
    async def scenario() -> set[str]:
        jobs = (executor.run(_thread_name, pool=pool, lane="disk") for pool in Pool)
        return set(await asyncio.gather(*jobs))

    assert len(asyncio.run(scenario())) == 1


def _thread_name() -> str:
    return threading.current_thread().name

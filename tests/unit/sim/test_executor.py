import asyncio
import errno

import pytest

from odradek.base.ports import Pool
from odradek.sim.computer import Ports
from odradek.sim.world import World


def run_program(world: World, program: object) -> None:
    world.add_computer("one").run(program)  # type: ignore[arg-type]
    world.run_for(60)
    assert not world.unexpected, world.unexpected


def test_jobs_of_a_lane_keep_their_order_and_never_overlap(world: World) -> None:
    done: list[int] = []

    async def program(ports: Ports) -> int:
        await asyncio.gather(*(ports.executor.run(lambda n=n: done.append(n), lane="disk") for n in range(50)))
        return 0

    run_program(world, program)
    assert done == list(range(50))


def test_jobs_of_different_lanes_overtake_each_other(world: World) -> None:
    done: list[int] = []

    async def program(ports: Ports) -> int:
        await asyncio.gather(*(ports.executor.run(lambda n=n: done.append(n)) for n in range(50)))
        return 0

    run_program(world, program)
    assert sorted(done) == list(range(50))
    assert done != sorted(done)


def test_jobs_of_a_pool_wait_for_its_threads_and_not_for_other_pools(world: World) -> None:
    done: list[str] = []

    async def program(ports: Ports) -> int:
        def read() -> None:
            file = ports.disk.open("/file", create=True)
            for _ in range(1000):
                file.sync()
            done.append("read")

        jobs = [ports.executor.run(read, pool=Pool.READ) for _ in range(20)]
        jobs.append(ports.executor.run(lambda: done.append("sync"), pool=Pool.SYNC))
        await asyncio.gather(*jobs)
        return 0

    run_program(world, program)
    assert done.index("sync") <= 4
    assert done.count("read") == 20


def test_a_job_takes_as_long_as_its_disk_operations_without_blocking_the_loop(world: World) -> None:
    times: list[float] = []

    async def program(ports: Ports) -> int:
        def work() -> float:
            file = ports.disk.open("/file", create=True)
            for _ in range(1000):
                file.sync()
            return 1.0

        async def tick() -> None:
            for _ in range(10):
                await asyncio.sleep(0.01)
                times.append(asyncio.get_running_loop().time())

        ticking = asyncio.ensure_future(tick())
        times.append(await ports.executor.run(work))
        times.append(asyncio.get_running_loop().time())
        await ticking
        return 0

    run_program(world, program)
    assert times[:10] == pytest.approx([0.01 * n for n in range(1, 11)])
    assert times[-1] > 0.5


def test_an_error_of_a_job_is_raised_at_the_caller(world: World) -> None:
    async def program(ports: Ports) -> int:
        def work() -> None:
            raise OSError(errno.EIO, "broken")

        with pytest.raises(OSError, match="broken"):
            await ports.executor.run(work, lane="disk")
        assert await ports.executor.run(lambda: 7, lane="disk") == 7
        return 0

    run_program(world, program)


def test_there_is_no_loop_in_a_thread(world: World) -> None:
    async def program(ports: Ports) -> int:
        with pytest.raises(RuntimeError):
            await ports.executor.run(asyncio.get_running_loop)
        return 0

    run_program(world, program)


def test_a_job_that_waits_can_be_cancelled_one_that_runs_cannot(world: World) -> None:
    done: list[str] = []

    async def program(ports: Ports) -> int:
        running = asyncio.ensure_future(ports.executor.run(lambda: done.append("running"), lane="disk"))
        waiting = asyncio.ensure_future(ports.executor.run(lambda: done.append("waiting"), lane="disk"))
        await asyncio.sleep(0)
        running.cancel()
        waiting.cancel()
        await asyncio.sleep(1)
        return 0

    run_program(world, program)
    assert done == ["running"]


def test_a_process_that_dies_during_a_job_completes_nothing(world: World) -> None:
    computer = world.add_computer("one")
    listener: list[str] = []

    async def program(ports: Ports) -> int:
        def work() -> None:
            file = ports.disk.open("/file", create=True)
            file.write_at(0, b"1")
            file.write_at(1, b"2")

        await ports.executor.run(work)
        listener.append("done")
        return 0

    process = computer.run(program)
    process.disk_countdown.start(3, computer.kill)
    world.run_for(1)
    assert listener == []
    assert computer.disk.file("/file").cached.read(0, 10) == b"1"

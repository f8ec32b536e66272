import asyncio

import pytest

from odradek.sim.computer import Ports
from odradek.sim.world import World
from tests.unit.sim.sim_support import run


def test_asyncio_runs_on_virtual_time(world: World) -> None:
    async def main() -> list[tuple[str, float]]:
        loop = asyncio.get_running_loop()
        seen: list[tuple[str, float]] = []

        async def sleep(seconds: float) -> None:
            await asyncio.sleep(seconds)
            seen.append((f"slept {seconds}", loop.time()))

        async with asyncio.TaskGroup() as group:
            for seconds in (3600.0, 1.0, 60.0):
                group.create_task(sleep(seconds))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        seen.append(("timed out", loop.time()))
        return seen

    assert run(world, world.add_computer("one"), main(), seconds=5000) == [
        ("slept 1.0", 1.0),
        ("slept 60.0", 60.0),
        ("slept 3600.0", 3600.0),
        ("timed out", 3605.0),
    ]


def test_locks_queues_and_gather(world: World) -> None:
    async def main() -> list[int]:
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        lock = asyncio.Lock()
        found: list[int] = []

        async def give(numbers: range) -> None:
            for number in numbers:
                async with lock:
                    await queue.put(number)

        async def take() -> None:
            for _ in range(4):
                found.append(await queue.get())

        await asyncio.gather(give(range(2)), give(range(10, 12)), take())
        return found

    assert run(world, world.add_computer("one"), main()) == asyncio.run(main())


def test_threads_and_signals_are_not_implemented(world: World) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(NotImplementedError):
            await loop.run_in_executor(None, print)
        with pytest.raises(NotImplementedError):
            loop.add_signal_handler(15, print)
        with pytest.raises(NotImplementedError):
            loop.add_reader(0, print)

    run(world, world.add_computer("one"), main())


def test_a_silently_dead_task_is_recorded(world: World) -> None:
    async def fail() -> None:
        raise KeyError("unnoticed")

    async def program(ports: Ports) -> int:
        kept = asyncio.ensure_future(fail())
        await asyncio.sleep(10)
        assert kept.done()
        return 0

    world.add_computer("one").run(program)
    world.run_for(11)
    ((name, what),) = world.unexpected
    assert name == "one"
    assert what.startswith("a task died silently")
    assert "KeyError: 'unnoticed'" in what


def test_a_task_whose_error_is_retrieved_is_not_recorded(world: World) -> None:
    async def fail() -> None:
        raise KeyError("noticed")

    async def main() -> None:
        awaited, checked, cancelled = (asyncio.ensure_future(one) for one in (fail(), fail(), asyncio.sleep(60)))
        checked.add_done_callback(lambda task: task.exception())
        cancelled.cancel()
        with pytest.raises(KeyError):
            await awaited
        await asyncio.sleep(10)

    run(world, world.add_computer("one"), main())


def test_an_uncaught_error_is_recorded(world: World) -> None:
    async def program(ports: Ports) -> int:
        asyncio.get_running_loop().call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)
        return 0

    world.add_computer("one").run(program)
    world.run_for(2)
    ((name, what),) = world.unexpected
    assert name == "one"
    assert "ZeroDivisionError" in what


def test_processes_do_not_share_a_loop(world: World) -> None:
    loops = []

    async def program(ports: Ports) -> int:
        loops.append(asyncio.get_running_loop())
        return 0

    for name in ("one", "two"):
        world.add_computer(name).run(program)
    world.run_for(1)
    assert loops[0] is not loops[1]

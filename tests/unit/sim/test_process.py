import asyncio

from odradek.sim.computer import Ports
from odradek.sim.world import World


def test_a_killed_process_runs_no_finally_block(world: World) -> None:
    computer = world.add_computer("one")
    ran: list[str] = []

    async def program(ports: Ports) -> int:
        try:
            asyncio.get_running_loop().call_later(2, ran.append, "timer")
            await asyncio.sleep(2)
            ran.append("slept")
        finally:
            ran.append("finally")
        return 0

    computer.run(program)
    world.run_for(1)
    computer.kill()
    world.run_for(5)
    assert ran == []
    assert not computer.is_running
    assert computer.process is not None
    assert computer.process.exit_code is None


def test_a_process_can_crash_between_any_two_steps(world: World) -> None:
    computer = world.add_computer("one")
    lived: list[int] = []

    async def program(ports: Ports) -> int:
        for step in range(100):
            lived.append(step)
            await asyncio.sleep(0)
        return 0

    for steps in range(1, 20):
        lived.clear()
        process = computer.run(program)
        process.step_countdown.start(steps, computer.kill)
        world.run_for(1)
        assert not computer.is_running
        # The first step of a process only begins its program.
        assert len(lived) == max(0, steps - 2)


def test_a_process_can_crash_during_a_disk_operation(world: World) -> None:
    computer = world.add_computer("one")
    reached: list[str] = []

    async def program(ports: Ports) -> int:
        file = ports.disk.open("/file", create=True)
        for number in range(10):
            file.write_at(number, b"x")
            reached.append(f"wrote {number}")
        return 0

    process = computer.run(program)
    # One operation opens the file.
    process.disk_countdown.start(4, computer.kill)
    world.run_for(1)
    assert reached == ["wrote 0", "wrote 1"]
    assert computer.disk.file("/file").cached.size == 2


def test_a_paused_process_resumes(world: World) -> None:
    computer = world.add_computer("one")
    ticks: list[float] = []

    async def program(ports: Ports) -> int:
        for _ in range(4):
            await asyncio.sleep(1)
            ticks.append(asyncio.get_running_loop().time())
        return 0

    computer.run(program)
    world.run_for(1.5)
    computer.pause(10)
    world.run_for(30)
    assert ticks == [1.0, 11.5, 12.5, 13.5]


def test_a_slow_disk_blocks_the_loop(world: World) -> None:
    computer = world.add_computer("one")
    computer.disk_condition.slow_seconds = 1.0
    seen: list[float] = []

    async def program(ports: Ports) -> int:
        asyncio.get_running_loop().call_later(0.001, lambda: seen.append(asyncio.get_running_loop().time()))
        before = ports.clock.monotonic()
        ports.disk.open("/file", create=True)
        seen.append(ports.clock.monotonic() - before)
        await asyncio.sleep(5)
        return 0

    computer.run(program)
    world.run_for(10)
    took, ticked_at = seen
    assert 0 < took < 1
    assert ticked_at >= took


def test_a_program_that_raises_ends_its_process(world: World) -> None:
    async def program(ports: Ports) -> int:
        raise ValueError("a mistake")

    computer = world.add_computer("one")
    process = computer.run(program)
    world.run_for(1)
    assert process.exit_code == 70
    assert "a mistake" in world.unexpected[0][1]

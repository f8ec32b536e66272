"""A simulated computer: an address, a disk, clocks, and at most one running process."""

from collections.abc import Callable, Coroutine, Mapping
from random import Random
from typing import Any, Final

from odradek.base.ports import Pool
from odradek.sim.clock import ComputerClock, VirtualClock
from odradek.sim.disk import VirtualDisk
from odradek.sim.disk_port import DiskCondition, VirtualDiskPort
from odradek.sim.executor import VirtualExecutor
from odradek.sim.loop import VirtualLoop
from odradek.sim.network import Network
from odradek.sim.process import Process
from odradek.sim.scheduler import Scheduler
from odradek.sim.trace import Trace

# For programs other than nodes.
_POOL_SIZES: Final = dict.fromkeys(Pool, 4)


class Ports:
    """The ports of one process: its clock, disk, executor and random source."""

    def __init__(self, computer: "Computer", process: Process, pool_sizes: Mapping[Pool, int]) -> None:
        run = f"{process.name}/run {computer.runs}"
        self.process: Final = process
        self.random: Final = computer.new_random(run)
        self.clock: Final = VirtualClock(computer.clock, process)
        self.disk: Final = VirtualDiskPort(
            computer.disk, computer.disk_condition, process, computer.new_random(f"{run}/disk")
        )
        self.executor: Final = VirtualExecutor(process, self.disk, computer.new_random(f"{run}/threads"), pool_sizes)


Program = Callable[[Ports], Coroutine[Any, Any, int]]


class Computer:
    def __init__(
        self, name: str, scheduler: Scheduler, trace: Trace, network: Network, new_random: Callable[[str], Random]
    ) -> None:
        self.name: Final = name
        self._scheduler: Final = scheduler
        self._trace: Final = trace
        self._network: Final = network
        self.new_random: Final = new_random
        network.add_host(name)
        self.clock: Final = ComputerClock(new_random(f"{name}/clock").uniform(0, 1e6))
        self.disk: Final = VirtualDisk(new_random(f"{name}/power"), lambda: self.clock.wall_ms(scheduler.now))
        self.disk_condition: Final = DiskCondition()
        self.process: Process | None = None
        self.past_processes: Final[list[Process]] = []
        self.runs = 0
        self.is_on = True

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.is_alive

    def run(self, program: Program, *, pool_sizes: Mapping[Pool, int] = _POOL_SIZES) -> Process:
        """Starts a program; no other may be running."""
        assert self.is_on and not self.is_running, f"{self.name} is off or busy"
        ports = self.new_process(pool_sizes)
        ports.process.begin(program(ports))
        return ports.process

    def new_process(self, pool_sizes: Mapping[Pool, int] = _POOL_SIZES) -> Ports:
        self.runs += 1
        process = Process(self.name, self._scheduler, self._trace)
        process.loop = VirtualLoop(process, self._network, self.name)  # type: ignore[abstract]
        self._network.adopt(process)
        self.process = process
        self.past_processes.append(process)
        return Ports(self, process, pool_sizes)

    def kill(self) -> None:
        """kill -9: the page cache stays, the kernel closes the connections."""
        if self.is_running:
            self._trace.major(self.name, "is killed")
            self._process().kill()

    def lose_power(self) -> None:
        if not self.is_on:
            return
        self._trace.major(self.name, "loses power")
        self.is_on = False
        self._network.switch_off(self.name)
        if self.is_running:
            self._process().kill(power_lost=True)
        self.disk.lose_power()

    def switch_on(self) -> None:
        if not self.is_on:
            self._trace.major(self.name, "has power again")
            self.is_on = True
            self._network.switch_on(self.name)

    def pause(self, seconds: float) -> None:
        if self.is_running:
            self._trace.major(self.name, f"pauses for {seconds:.3f} s")
            self._process().pause(seconds)

    def _process(self) -> Process:
        assert self.process is not None
        return self.process

"""What the tests of the simulator share: programs on machines of a small world."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from odradek.sim.computer import Computer, Ports
from odradek.sim.world import World


def run(world: World, computer: Computer, main: Coroutine[Any, Any, Any], seconds: float = 60.0) -> Any:
    """The coroutine's result, run as the machine's program."""
    results: list[Any] = []

    async def program(ports: Ports) -> int:
        results.append(await main)
        return 0

    computer.run(program)
    world.run_for(seconds, lambda: not computer.is_running)
    assert not world.unexpected, world.unexpected
    (result,) = results
    return result


class Recorder(asyncio.Protocol):
    """Records the calls of a transport."""

    def __init__(self, *, keeps_open: bool = False) -> None:
        self.keeps_open = keeps_open
        self.transport: asyncio.Transport
        self.data = bytearray()
        self.pieces = 0
        self.events: list[str] = []
        self.error: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.pieces += 1

    def eof_received(self) -> bool:
        self.events.append("eof")
        return self.keeps_open

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost")
        self.error = exc

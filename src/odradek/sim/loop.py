"""asyncio's event loop for one simulated process: timers on virtual time, transports on the simulated network.

Every process has its own loop, so that no process can await a future of another, and so that every callback belongs to
a process. Threads, selectors and signals raise NotImplementedError: a node that used them would bypass its ports.
"""

import asyncio
import traceback
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, Final, TypeVar, TypeVarTuple, cast

from odradek.sim.network import AddressInfo, Network
from odradek.sim.process import Process
from odradek.sim.scheduler import Turn
from odradek.sim.silent_tasks import SCAN_SECONDS, SilentTasks
from odradek.sim.transport import VirtualServer, VirtualTransport, open_connection

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")
ExceptionHandler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]


class VirtualLoop(asyncio.AbstractEventLoop):
    def __init__(self, process: Process, network: Network, host: str) -> None:
        self._process: Final = process
        self._scheduler: Final = process.scheduler
        self._network: Final = network
        self._host: Final = host
        self._exception_handler: ExceptionHandler | None = None
        self._silent_tasks: Final = SilentTasks(process.note_unexpected)

    # ---- time

    def time(self) -> float:
        return self._process.now

    def call_soon(
        self, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.TimerHandle:
        turn = Turn(self._process, 0.0, callback, args, context)
        self._scheduler.soon(turn)
        return cast(asyncio.TimerHandle, turn)

    def call_soon_threadsafe(
        self, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._process.now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.TimerHandle:
        turn = Turn(self._process, when, callback, args, context)
        self._scheduler.at(when, turn)
        return cast(asyncio.TimerHandle, turn)

    # ---- futures and tasks

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        task = asyncio.Task(cast(Coroutine[Any, Any, T], coro), loop=self, name=name, context=context)
        self._silent_tasks.add(task)
        return task

    def find_silent_tasks(self) -> None:
        """Notes tasks that died silently, from now on until the process ends."""
        self._silent_tasks.scan()
        self.call_later(SCAN_SECONDS, self.find_silent_tasks)

    def unfinished_tasks(self) -> list[asyncio.Task[Any]]:
        """The tasks of a process that has ended; asyncio must not warn that they are pending."""
        tasks = list(asyncio.all_tasks(self))
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        return tasks

    # ---- methods that asyncio calls

    def is_running(self) -> bool:
        return self._process.is_alive

    def is_closed(self) -> bool:
        # Futures of a dead process may still call the loop while they are deallocated.
        return False

    def get_debug(self) -> bool:
        return False

    def set_exception_handler(self, handler: ExceptionHandler | None) -> None:
        self._exception_handler = handler

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._process.is_alive:
            return
        if self._exception_handler is not None:
            # It logs the error, which is unexpected in every simulation.
            self._exception_handler(self, context)
            return
        error = context.get("exception")
        what = str(context.get("message"))
        if isinstance(error, BaseException):
            what += "\n" + "".join(traceback.format_exception(error))
        self._process.note_unexpected(what)

    # ---- network

    async def getaddrinfo(  # type: ignore[override]
        self,
        host: bytes | str | None,
        port: bytes | str | int | None,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[AddressInfo]:
        return self._network.resolve(str(host), int(port or 0), self._host)

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        backlog: int = 100,
        reuse_address: bool | None = None,
        start_serving: bool = True,
    ) -> VirtualServer:
        server = VirtualServer(self._network, self._process, protocol_factory, self._host, port or 0)
        if start_serving:
            await server.start_serving()
        return server

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        **options: Any,
    ) -> tuple[VirtualTransport, asyncio.BaseProtocol]:
        return await open_connection(self._network, self._process, protocol_factory, self._host, str(host), port or 0)

"""The sockets of liveness probes, and the tasks and the timer of a state machine that uses them."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from odradek.base.background import OnFault, report_fault, start_task
from odradek.base.ports import Clock
from odradek.core.liveness.probes import ProbeResult, RegisteredEndpoint
from odradek.server.connecting import Refused, Unreachable, probe


async def probe_endpoint(endpoint: RegisteredEndpoint, timeout_seconds: float) -> ProbeResult:
    try:
        await probe(endpoint.host, endpoint.port, timeout_seconds=timeout_seconds)
    except Refused:
        return ProbeResult.REFUSED
    except Unreachable:
        return ProbeResult.UNREACHABLE
    return ProbeResult.CONNECTED


class ProbeTasks:
    """Runs the effects of one state machine: several tasks and one timer, which `stop` cancels."""

    def __init__(self, name: str, clock: Clock, on_time: Callable[[], None], on_fault: OnFault = report_fault) -> None:
        self._name: Final = name
        self._on_fault: Final = on_fault
        self._clock: Final = clock
        self._on_time: Final = on_time
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: Final[dict[asyncio.Task[None], None]] = {}

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = start_task(self._name, work, self._on_fault)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    def wake_at(self, moment: float) -> None:
        """Replaces the previous moment."""
        self._cancel_timer()
        delay = max(0.0, moment - self._clock.monotonic())
        self._timer = asyncio.get_running_loop().call_later(delay, self._wake)

    def stop(self) -> None:
        self._cancel_timer()
        for task in list(self._tasks):
            task.cancel()

    def _wake(self) -> None:
        self._timer = None
        self._on_time()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

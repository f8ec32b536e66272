"""A response that becomes available later, without a task that waits for it.

Coordinators and partitions create it, API handlers convert its result, and the connection writes it. A long poll
completes thousands of times a second, and the client's latency is the time from `complete` to the socket: that path
schedules no task.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final


class DeferredResponse:
    """Completes, fails or is cancelled once; whatever comes after that is ignored."""

    __slots__ = ("_callback", "_convert", "allows_next_request", "error", "is_done", "request", "result")

    def __init__(self, request: Any = None) -> None:
        self.request = request
        """What this responds to: the owner needs it to build an error response."""
        self.result: Any = None
        self.error: Exception | None = None
        self.is_done = False
        self.allows_next_request = False
        """Whether the request is already executed or queued, so that the connection may handle the client's next
        request to the same API before this response is written."""
        self._callback: Callable[[DeferredResponse], None] | None = None
        self._convert: Callable[[Any], Any] | None = None

    @classmethod
    def from_result(cls, result: Any) -> "DeferredResponse":
        deferred = cls()
        deferred.complete(result)
        return deferred

    @classmethod
    def from_all(cls, parts: "Sequence[DeferredResponse]") -> "DeferredResponse":
        """Completes with the results of all parts, in their order, or fails with the first error."""
        if all(part.is_done and part.error is None for part in parts):
            return cls.from_result([part.result for part in parts])
        combined = _CombinedResponse(parts)
        combined.start()
        return combined

    def complete(self, result: Any) -> None:
        if self.is_done:
            return
        if self._convert is not None:
            try:
                result = self._convert(result)
            except Exception as error:  # noqa: BLE001 - must not reach the append or the commit that completes this
                self.fail(error)
                return
        self.is_done = True
        self.result = result
        if self._callback is not None:
            self._callback(self)

    def fail(self, error: Exception) -> None:
        if not self.is_done:
            self.is_done = True
            self.error = error
            if self._callback is not None:
                self._callback(self)

    def on_complete(self, callback: Callable[["DeferredResponse"], None]) -> None:
        """Calls `callback` once with this object when it completes or fails, which may be at once."""
        assert self._callback is None, "a deferred response has one receiver"
        self._callback = callback
        if self.is_done:
            callback(self)

    def convert(self, convert: Callable[[Any], Any]) -> None:
        """Replaces the result by `convert(result)`, after the conversions that were added before."""
        if self.is_done:
            if self.error is None:
                self.result = convert(self.result)
            return
        former = self._convert
        self._convert = convert if former is None else lambda result: convert(former(result))

    def on_next_request(self) -> None:
        """Called when another request of the client waits for this response. Long polls of followers end early."""

    def cancel(self) -> None:
        """Drops the receiver. Subclasses release what they hold."""
        self.is_done = True
        self._callback = None

    async def wait(self) -> Any:
        """Returns the result, for a caller that is a coroutine anyway. Raises the error."""
        if not self.is_done:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.on_complete(lambda _: None if done.done() else done.set_result(None))
            try:
                await done
            finally:
                self.cancel()
        if self.error is not None:
            raise self.error
        return self.result


class _CombinedResponse(DeferredResponse):
    __slots__ = ("_missing", "_parts")

    def __init__(self, parts: Sequence[DeferredResponse]) -> None:
        super().__init__()
        self._parts: Final = parts
        self._missing = len(parts)

    def start(self) -> None:
        for part in self._parts:
            part.on_complete(self._on_part)

    def cancel(self) -> None:
        super().cancel()
        for part in self._parts:
            part.cancel()

    def _on_part(self, part: DeferredResponse) -> None:
        self._missing -= 1
        if part.error is not None:
            self.fail(part.error)
        elif not self._missing:
            self.complete([one.result for one in self._parts])

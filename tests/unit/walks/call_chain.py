"""Finds the functions that a request passes through, from the bytes received to the bytes written.

A `Tracer` runs in the simulator, where all nodes share one thread, and `sys.setprofile` reports every call. A path
leads from the receipt of bytes by a node to a landmark: a function such as the append to the log. A function is on the
path if it was on the call stack when the landmark was called, or when a callback was scheduled that led to it. Helpers
that return before are not on the path.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import odradek
from odradek.server.connection import ClientConnection
from odradek.sim.scheduler import Turn
from odradek.sim.transport import VirtualTransport

_SOURCE: Final = str(Path(odradek.__file__).parent) + "/"
_SIMULATOR: Final = _SOURCE + "sim/"
_RECEIVE: Final = (".data_received", "PeerLink.buffer_updated")
_WRITE: Final = VirtualTransport.write.__code__
WRITE: Final = "write of the response"


@dataclass(frozen=True, slots=True)
class Function:
    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"


@cache
def function_of(code: CodeType) -> Function | None:
    """None for code outside of Odradek, of the simulator, and of lambdas and comprehensions."""
    path = code.co_filename
    is_counted = path.startswith(_SOURCE) and not path.startswith(_SIMULATOR) and code.co_name[0] != "<"
    return Function(path.removeprefix(_SOURCE).removesuffix(".py"), code.co_qualname) if is_counted else None


@dataclass(frozen=True, slots=True)
class _Cause:
    """The functions that scheduled a callback, and the cause of their own callback."""

    parent: "_Cause | None"
    stack: tuple[Function, ...]


@dataclass(slots=True)
class Walk:
    paths: dict[str, list[Function]] = field(default_factory=dict)
    """To each landmark, from the last receipt of bytes before it."""

    def inbound(self, *landmarks: str) -> list[Function]:
        """The distinct functions on the paths to these landmarks."""
        return list(dict.fromkeys(function for landmark in landmarks for function in self.paths[landmark]))

    def outbound(self, first: str) -> list[Function]:
        """The distinct functions from the last call of `first` to the write of the response."""
        path = self.paths[WRITE]
        start = max(index for index, function in enumerate(path) if function.name == first)
        return list(dict.fromkeys(path[start:]))

    @property
    def modules(self) -> list[str]:
        return list(dict.fromkeys(function.module for path in self.paths.values() for function in path))


class Tracer:
    """Follows the next request to `api_key` whose bytes contain `client_id`, until its response is written.

    A landmark is the qualified name of a function, or a module or package, of which it is the first call.
    """

    def __init__(self, api_key: int, client_id: bytes, landmarks: Sequence[str]) -> None:
        self._api_key: Final = api_key
        self._client_id: Final = client_id
        self._missing: Final = set(landmarks)
        self._cause: _Cause | None = None
        self._connection: ClientConnection | None = None
        self.walk: Final = Walk()

    @contextmanager
    def running(self) -> Iterator[None]:
        create = Turn.__init__

        def __init__(turn: Turn, process: Any, when: float, callback: Callable[..., Any], *rest: Any) -> None:
            create(turn, process, when, self._bind(callback), *rest)

        Turn.__init__ = __init__  # type: ignore[method-assign]
        sys.setprofile(self._on_event)
        try:
            yield
        finally:
            sys.setprofile(None)
            Turn.__init__ = create  # type: ignore[method-assign]

    def _bind(self, callback: Callable[..., Any]) -> Callable[..., Any]:
        cause = _Cause(self._cause, self._stack(sys._getframe(2)))

        def run(*arguments: Any) -> Any:
            former, self._cause = self._cause, cause
            try:
                return callback(*arguments)
            finally:
                self._cause = former

        return run

    def _stack(self, frame: FrameType | None) -> tuple[Function, ...]:
        """Odradek's functions on the stack, outermost first, up to the callback that the loop has called."""
        found: list[Function] = []
        while frame is not None and frame.f_code.co_filename != __file__:
            function = function_of(frame.f_code)
            if function is not None:
                found.append(function)
            frame = frame.f_back
        return tuple(reversed(found))

    def _on_event(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or WRITE in self.walk.paths:
            return
        code = frame.f_code
        if self._connection is None:
            self._start(frame)
        elif code is _WRITE:
            caller = frame.f_back
            while caller is not None and function_of(caller.f_code) is None:
                caller = caller.f_back
            if caller is not None and caller.f_locals.get("self") is self._connection:
                self._note(WRITE, frame)
        else:
            function = function_of(code)
            package = "" if function is None else function.module.rsplit("/", 1)[0]
            for landmark in () if function is None else (function.name, function.module, package):
                if landmark in self._missing:
                    self._missing.discard(landmark)
                    self._note(landmark, frame)

    def _start(self, frame: FrameType) -> None:
        if frame.f_code is ClientConnection.data_received.__code__:
            data = frame.f_locals["data"]
            if data[4:6] == self._api_key.to_bytes(2) and self._client_id in data:
                self._connection = frame.f_locals["self"]

    def _note(self, landmark: str, frame: FrameType) -> None:
        path = list(self._stack(frame))
        cause = self._cause
        while cause is not None and not any(function.name.endswith(_RECEIVE) for function in path):
            path = [*cause.stack, *path]
            cause = cause.parent
        starts = [index for index, function in enumerate(path) if function.name.endswith(_RECEIVE)]
        self.walk.paths[landmark] = path[starts[-1] if starts else 0 :]

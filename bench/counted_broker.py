"""A broker that can remove the counting code from its Produce path at run time and measures the cost of hot keys.

Started as `python -m bench.counted_broker SOCKET start server.properties`. Two brokers with the same code differ by
more than counting costs, because of their memory layout. So one broker switches its own code instead.
"""

import importlib
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any, Final

from odradek.cli.main import run
from odradek.instruments.hot_keys import KeySketch
from odradek.observe import hot_keys
from odradek.observe.hot_keys import HotKeys

WITH, WITHOUT, HOT_KEYS_COST = b"with", b"without", b"hot keys"
# The counting code on the path of a Produce request: module, function, source lines.
COUNTING: Final = (
    (
        "odradek.storage.partition.partition",
        "Partition._published",
        ("        traffic = self.traffic\n        traffic.appends += 1\n", "        traffic.bytes_in += size\n"),
    ),
    (
        "odradek.server.connection",
        "ClientConnection._handle",
        (
            """            requests = context.meter.requests
            requests.left = left = requests.left - 1
            if not left:
                requests.restart_stride()
                started = self._monotonic() if has_waited else arrived
""",
        ),
    ),
)


class _Function:
    """A function with and without its counting code."""

    def __init__(self, module_name: str, name: str, counting: tuple[str, ...]) -> None:
        module = importlib.import_module(module_name)
        file = Path(str(module.__file__))
        found: Any = module
        for part in name.split("."):
            found = getattr(found, part)
        self._function: Final = found
        text = file.read_text()
        # Both variants are compiled here, so that they differ in nothing else.
        self._forms: Final = {WITH: _code(text, file, name), WITHOUT: _code(_without(text, counting), file, name)}

    def switch_to(self, form: bytes) -> None:
        self._function.__code__ = self._forms[form]


def _without(text: str, counting: tuple[str, ...]) -> str:
    for lines in counting:
        assert text.count(lines) == 1, f"the counting code was not found: {lines!r}"
        text = text.replace(lines, "")
    return text


def _code(text: str, file: Path, name: str) -> CodeType:
    return next(one for one in _codes(compile(text, str(file), "exec")) if one.co_qualname == name)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


class _HotKeysCost:
    """CPU time of sampling hot keys, on the event loop and in the reading thread."""

    def __init__(self) -> None:
        self.nanoseconds = 0
        self._wrap(HotKeys, "_new_ranges")
        self._wrap(HotKeys, "_drop_sketches")
        self._wrap(hot_keys, "_read")
        self._wrap(KeySketch, "add")
        self._wrap(KeySketch, "fade")

    def _wrap(self, owner: Any, name: str) -> None:
        work: Callable[..., Any] = getattr(owner, name)

        def measured_call(*given: Any, **named: Any) -> Any:
            before = time.thread_time_ns()
            try:
                return work(*given, **named)
            finally:
                self.nanoseconds += time.thread_time_ns() - before

        setattr(owner, name, measured_call)


def _serve_commands(path: str, functions: list[_Function], cost: _HotKeysCost) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        connection, _ = listening.accept()
        with connection:
            while word := connection.recv(64):
                if word == HOT_KEYS_COST:
                    connection.sendall(b"%d" % cost.nanoseconds)
                    continue
                for function in functions:
                    function.switch_to(word)
                connection.sendall(word)


if __name__ == "__main__":
    given = [_Function(*one) for one in COUNTING]
    threading.Thread(target=_serve_commands, args=(sys.argv.pop(1), given, _HotKeysCost()), daemon=True).start()
    sys.exit(run(sys.argv[1:]))

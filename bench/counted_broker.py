"""A broker whose counting on the way of producers can be taken out and put back while it runs, and that knows what hot
keys have cost it: `python -m bench.counted_broker SOCKET start server.properties`.

Two brokers of the same code differ by more than counting costs, by where things lie in their memory; one that changes
its code does not differ from itself.
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
# All that a Produce request passes on its way and that only counts: module, function, what it counts with.
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
                requests.begin_again()
                started = self._monotonic() if has_waited else arrived
""",
        ),
    ),
)


class _Function:
    """With and without what it counts."""

    def __init__(self, module_name: str, name: str, counting: tuple[str, ...]) -> None:
        module = importlib.import_module(module_name)
        file = Path(str(module.__file__))
        found: Any = module
        for part in name.split("."):
            found = getattr(found, part)
        self._function: Final = found
        text = file.read_text()
        # Both are compiled here, so that they differ in nothing else.
        self._forms: Final = {WITH: _code(text, file, name), WITHOUT: _code(_without(text, counting), file, name)}

    def take(self, form: bytes) -> None:
        self._function.__code__ = self._forms[form]


def _without(text: str, counting: tuple[str, ...]) -> str:
    for lines in counting:
        assert text.count(lines) == 1, f"nobody counts by {lines!r}"
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
    """Processor time of every look at keys, on the loop and in the thread that reads."""

    def __init__(self) -> None:
        self.nanoseconds = 0
        self._wrap(HotKeys, "_new_ranges")
        self._wrap(HotKeys, "_forget")
        self._wrap(hot_keys, "_read")
        self._wrap(KeySketch, "add")
        self._wrap(KeySketch, "fade")

    def _wrap(self, owner: Any, name: str) -> None:
        work: Callable[..., Any] = getattr(owner, name)

        def timed(*given: Any, **named: Any) -> Any:
            before = time.thread_time_ns()
            try:
                return work(*given, **named)
            finally:
                self.nanoseconds += time.thread_time_ns() - before

        setattr(owner, name, timed)


def _obey(path: str, functions: list[_Function], cost: _HotKeysCost) -> None:
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
                    function.take(word)
                connection.sendall(word)


if __name__ == "__main__":
    given = [_Function(*one) for one in COUNTING]
    threading.Thread(target=_obey, args=(sys.argv.pop(1), given, _HotKeysCost()), daemon=True).start()
    sys.exit(run(sys.argv[1:]))

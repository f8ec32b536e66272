"""A broker that can remove the counting code from its Produce path at run time and measures the cost of hot keys.

Started as `python -m bench.counted_broker SOCKET start server.properties`. `bench.exchanged_code` says why.
"""

import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.exchanged_code import ExchangedFunction, codes_in, find_function, serve_commands
from odradek.cli.main import run
from odradek.instruments.hot_keys import KeySketch
from odradek.observe import hot_keys
from odradek.observe.hot_keys import HotKeys

HOT_KEYS_COST: Final = b"hot keys"
# The counting code on the path of a Produce request: module, function, source lines.
COUNTING: Final = (
    (
        "odradek.storage.partition.partition",
        "Partition._publish",
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


def _exchange(module_name: str, name: str, counting: tuple[str, ...]) -> ExchangedFunction:
    module = importlib.import_module(module_name)
    file = Path(str(module.__file__))
    text = file.read_text()
    # Both variants are compiled here, so that they differ in nothing else.
    codes = (
        next(one for one in codes_in(compile(form, str(file), "exec")) if one.co_qualname == name)
        for form in (text, _without(text, counting))
    )
    return ExchangedFunction(find_function(module, name), *codes)


def _without(text: str, counting: tuple[str, ...]) -> str:
    for lines in counting:
        assert text.count(lines) == 1, f"the counting code was not found: {lines!r}"
        text = text.replace(lines, "")
    return text


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


if __name__ == "__main__":
    cost = _HotKeysCost()
    serve_commands(
        sys.argv.pop(1), [_exchange(*one) for one in COUNTING], {HOT_KEYS_COST: lambda: b"%d" % cost.nanoseconds}
    )
    sys.exit(run(sys.argv[1:]))

"""Measures the cost of some code by exchanging functions of a running broker for variants without it.

Two brokers with the same code differ by some per cent, because of their memory layout: more than most code costs. So
one broker exchanges its own functions, on command over a Unix socket, and both variants take turns under the same load.
"""

import inspect
import random
import socket
import statistics
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from bench.measured_broker import MeasuredBroker

WITH, WITHOUT = b"with", b"without"
_COMMAND_BYTES_MAX: Final = 64


class ExchangedFunction:
    """A function with and without the code that is measured."""

    def __init__(self, function: FunctionType, with_code: CodeType, without_code: CodeType) -> None:
        self._function: Final = function
        self._codes: Final = {WITH: with_code, WITHOUT: without_code}

    def switch_to(self, variant: bytes) -> None:
        self._function.__code__ = self._codes[variant]


def find_function(module: ModuleType, qualified_name: str) -> FunctionType:
    """The function behind a name such as `Partition.append`; also that of a property, class method or static method."""
    found: Any = module
    for part in qualified_name.split("."):
        found = inspect.getattr_static(found, part)
    if isinstance(found, property):
        found = found.fget
    found = inspect.unwrap(getattr(found, "__func__", found))
    assert isinstance(found, FunctionType), f"{qualified_name} of {module.__name__} is not a function"
    return found


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """This code and that of all functions defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


def serve_commands(
    path: str, functions: Sequence[ExchangedFunction], queries: Mapping[bytes, Callable[[], bytes]] | None = None
) -> None:
    """Listens on a Unix socket, in a thread, for WITH, WITHOUT and the names of `queries`."""

    def serve() -> None:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path)
            listening.listen()
            connection, _ = listening.accept()
            with connection:
                while word := connection.recv(_COMMAND_BYTES_MAX):
                    if queries and word in queries:
                        connection.sendall(queries[word]())
                        continue
                    for function in functions:
                        function.switch_to(word)
                    connection.sendall(word)

    threading.Thread(target=serve, daemon=True).start()


class ExchangingBroker(MeasuredBroker):
    """A broker process that calls `serve_commands`, seen from the benchmark."""

    @property
    def command_socket(self) -> Path:
        return self.directory / "commands"

    def connect(self) -> None:
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(str(self.command_socket))

    def switch_to(self, variant: bytes) -> None:
        assert self.command(variant) == variant

    def command(self, word: bytes) -> bytes:
        self._connection.sendall(word)
        return self._connection.recv(_COMMAND_BYTES_MAX)


def measure_pairs(run_turn: Callable[[bytes], float], pairs: int) -> dict[bytes, list[float]]:
    """What `run_turn` returns for each variant, in `pairs` pairs of turns."""
    for variant in (WITH, WITHOUT) * 3:
        # Warm up both variants: one-time work and the interpreter's specialization.
        run_turn(variant)
    spent: dict[bytes, list[float]] = {WITH: [], WITHOUT: []}
    for _ in range(pairs):
        # Random order, so that periodic work such as segment rolls affects both variants equally.
        for variant in random.sample((WITH, WITHOUT), 2):
            spent[variant].append(run_turn(variant))
    return spent


def relative_cost(spent: Mapping[bytes, Sequence[float]]) -> float:
    """The median over the pairs of turns."""
    return statistics.median(one / other - 1 for one, other in zip(spent[WITH], spent[WITHOUT], strict=True))

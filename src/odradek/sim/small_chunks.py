"""Makes nodes send records in small chunks, so that simulated responses, which are short, are streamed too."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from odradek.broker.apis import fetch_reading
from odradek.server import send_buffers
from odradek.sim.fetch_history import READ_AHEAD_BYTES_MAX


@contextmanager
def small_chunks() -> Iterator[None]:
    with ExitStack() as stack:
        for module, name, size in (
            (fetch_reading, "READ_AHEAD_BYTES_MAX", READ_AHEAD_BYTES_MAX),
            (send_buffers, "SMALL_BYTES", 200),
            (send_buffers, "LARGE_BYTES", 1000),
        ):
            stack.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, size)
        yield

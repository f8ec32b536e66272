"""The physical limits: bare loops that only move bytes, in CPU seconds per GB, next to which brokers are measured.

Reads come from the page cache and go over loopback, 1 MiB at a time; writes go to a new file.
"""

import multiprocessing
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

CHUNK_BYTES: Final = 1 << 20
# The batches of a producer with `batch.size=65536`.
_BATCH_BYTES: Final = 1 << 16
SENDFILE, PREAD_SEND, WRITEV = "sendfile", "pread + send", "writev"
LOOPS: Final = (SENDFILE, PREAD_SEND, WRITEV)

Sender = Callable[[socket.socket, int, int], None]


def measure(size_bytes: int) -> dict[str, float]:
    """CPU seconds per GB of each loop, after a first run of each reading loop."""
    with tempfile.TemporaryDirectory(prefix="bench-limits-") as directory:
        file = Path(directory) / "data"
        written = _write(file, size_bytes)
        gb = size_bytes / 1e9
        found = {WRITEV: written / gb}
        for name, sender in ((SENDFILE, _send_file), (PREAD_SEND, _read_and_send)):
            _send(sender, file, size_bytes)
            found[name] = _send(sender, file, size_bytes) / gb
        return found


def _write(file: Path, size_bytes: int) -> float:
    batch = os.urandom(_BATCH_BYTES)
    batches = [batch] * (CHUNK_BYTES // _BATCH_BYTES)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT)
    try:
        began = time.thread_time()
        for _ in range(size_bytes // CHUNK_BYTES):
            assert os.writev(descriptor, batches) == CHUNK_BYTES
        return time.thread_time() - began
    finally:
        os.close(descriptor)


def _send(sender: Sender, file: Path, size_bytes: int) -> float:
    with _receiver() as connection:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            began = time.thread_time()
            sender(connection, descriptor, size_bytes)
            return time.thread_time() - began
        finally:
            os.close(descriptor)


def _send_file(connection: socket.socket, descriptor: int, size_bytes: int) -> None:
    at = 0
    while at < size_bytes:
        at += os.sendfile(connection.fileno(), descriptor, at, min(CHUNK_BYTES, size_bytes - at))


def _read_and_send(connection: socket.socket, descriptor: int, size_bytes: int) -> None:
    buffer = memoryview(bytearray(CHUNK_BYTES))
    at = 0
    while at < size_bytes:
        found = os.preadv(descriptor, [buffer], at)
        connection.sendall(buffer[:found])
        at += found


@contextmanager
def _receiver() -> Iterator[socket.socket]:
    """A connection to a process that reads everything."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        # A forked process could inherit the locks of a client library's threads.
        start = partial(multiprocessing.get_context("spawn").Process, target=receive_all)
        process = start(args=(server.getsockname()[1],))
        process.start()
        connection, _ = server.accept()
        try:
            yield connection
        finally:
            connection.close()
            process.join()


def receive_all(port: int) -> None:
    buffer = bytearray(CHUNK_BYTES)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while connection.recv_into(buffer):
            pass

"""Measures what thousands of idle connections cost a broker: memory and CPU time, before and with them."""

import multiprocessing
import resource
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final

from bench.workloads.sides import Meter, Side
from odradek.client.address import Address

CONNECTIONS: Final = 10_000
_OF_A_PROCESS: Final = 2_500
_SPARE_DESCRIPTORS: Final = 1_000
_SETTLE_S: Final = 2.0
_OPEN_S_MAX: Final = 120.0
# ApiVersions v0 without a client ID: what every client sends first.
_REQUEST: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)


@dataclass(frozen=True)
class IdleCost:
    connections: int
    before_mb: float
    with_mb: float
    before_core: float
    """Share of a core while no client is connected."""
    with_core: float

    @property
    def kb_of_a_connection(self) -> float:
        return (self.with_mb - self.before_mb) * 1000 / self.connections


def possible_connections() -> int:
    """As many as measured, or fewer if a broker, which inherits the limit, may not have so many open files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return CONNECTIONS if hard == resource.RLIM_INFINITY else min(CONNECTIONS, hard - _SPARE_DESCRIPTORS)


def measure(side: Side, connections: int, idle_s: float) -> IdleCost:
    (address,) = set(side.addresses)
    before_mb, before_core = _watch(side, idle_s)
    with _open_connections(address, connections):
        with_mb, with_core = _watch(side, idle_s)
    return IdleCost(connections, before_mb, with_mb, before_core, with_core)


def _watch(side: Side, idle_s: float) -> tuple[float, float]:
    time.sleep(_SETTLE_S)
    meter, began = Meter(side), time.monotonic()
    time.sleep(idle_s)
    usage = meter.read()
    return usage.resident_mb, usage.cpu_s / (time.monotonic() - began)


@contextmanager
def _open_connections(address: Address, connections: int) -> Iterator[None]:
    """Open in several processes, each of which stays below its limit of open files."""
    context = multiprocessing.get_context("spawn")
    pipes = []
    processes = []
    try:
        for first in range(0, connections, _OF_A_PROCESS):
            ours, theirs = context.Pipe()
            number = min(_OF_A_PROCESS, connections - first)
            process = context.Process(target=hold_connections, args=(address.host, address.port, number, theirs))
            process.start()
            theirs.close()
            pipes.append(ours)
            processes.append(process)
        for pipe in pipes:
            assert pipe.poll(_OPEN_S_MAX), "the connections were not opened in time"
            pipe.recv()
        yield
    finally:
        for pipe in pipes:
            pipe.close()
        for process in processes:
            process.join()


def hold_connections(host: str, port: int, number: int, parent: Connection) -> None:
    """Until the parent closes its end of the pipe."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    connections = [_connect(host, port) for _ in range(number)]
    parent.send(len(connections))
    # Returns, or raises EOFError, at the latest when the parent has ended.
    parent.poll(None)
    for connection in connections:
        connection.close()


def _connect(host: str, port: int) -> socket.socket:
    connection = socket.create_connection((host, port), timeout=30)
    connection.sendall(_REQUEST)
    (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    connection.recv(size, socket.MSG_WAITALL)
    return connection

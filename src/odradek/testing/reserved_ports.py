"""Reserves ports for the lifetime of a cluster, also while a node is stopped.

A socket that is bound but does not listen prevents the system from assigning the port, but nodes can still listen on it
with SO_REUSEADDR.
"""

import socket
from typing import Final

from odradek.local.node_files import HOST


class ReservedPorts:
    def __init__(self, count: int) -> None:
        self._sockets: Final = [_bound_socket() for _ in range(count)]
        self.numbers: Final[list[int]] = [one.getsockname()[1] for one in self._sockets]

    def release(self) -> None:
        for one in self._sockets:
            one.close()


def _bound_socket() -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((HOST, 0))
    return bound

"""Ports that nobody else on this machine is given while a cluster lives, also while the node that has them is down.

A socket that is bound but does not listen keeps a port from being handed out, and does not keep those from listening
there who name the port and allow its reuse, as nodes do.
"""

import socket
from typing import Final

from odradek.local.node_files import HOST


class ReservedPorts:
    def __init__(self, count: int) -> None:
        self._holders: Final = [_bound_socket() for _ in range(count)]
        self.numbers: Final[list[int]] = [holder.getsockname()[1] for holder in self._holders]

    def release(self) -> None:
        for holder in self._holders:
            holder.close()


def _bound_socket() -> socket.socket:
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind((HOST, 0))
    return holder

"""The network of one node under test, with partitions between nodes.

A partition drops data without an error: connections stay open, and new ones do not complete. When it heals,
connections that have dropped data are aborted, as TCP would do. Clients are never affected.
"""

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, Final

import uvloop

from odradek.server.delivery import deliver
from odradek.testing.faults import Faults

_RETRY_SECONDS: Final = 0.02


class NodeLoop(uvloop.Loop):
    """The event loop of one node. Every connection between nodes is opened by one of them on such a loop."""

    def __init__(self) -> None:
        super().__init__()
        self._node_id = -1
        self._faults = Faults()
        self._connections: Final[set[_Connection]] = set()

    @classmethod
    def of(cls, node_id: int) -> "NodeLoop":
        """Create the loop of a node, because the constructor of a uvloop takes no arguments."""
        loop = cls()
        loop._node_id = node_id
        return loop

    def apply_faults(self, faults: Faults) -> None:
        """May be called from any thread; connections are aborted in the thread of this loop."""
        self._faults = faults
        # A closed loop belongs to a node that has exited meanwhile.
        with suppress(RuntimeError):
            self.call_soon_threadsafe(self._heal_connections)

    def _is_partitioned_from(self, port: int) -> bool:
        """Return whether there is a partition between this node and the node that listens on the port."""
        side_of = self._faults.side_of
        side, other_side = side_of.get(self._node_id), side_of.get(self._faults.node_at.get(port, -1))
        return side is not None and other_side is not None and side != other_side

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **options: Any
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        def is_partitioned() -> bool:
            return self._is_partitioned_from(port)

        while is_partitioned():
            await asyncio.sleep(_RETRY_SECONDS)
        connection = _Connection(protocol_factory(), is_partitioned, self._connections)
        await super().create_connection(lambda: connection, host, port, **options)
        assert connection.transport is not None, "it is connected"
        return connection.transport, connection.protocol

    def _heal_connections(self) -> None:
        for connection in list(self._connections):
            connection.heal_if_reachable()


class _Connection(asyncio.Protocol):
    """Sits between a transport and its protocol, and passes on everything or, in a partition, nothing."""

    def __init__(
        self, protocol: asyncio.BaseProtocol, is_partitioned: Callable[[], bool], connections: "set[_Connection]"
    ) -> None:
        self.protocol: Final = protocol
        self.is_partitioned: Final = is_partitioned
        self.has_dropped_data = False
        self._connections: Final = connections
        self.transport: asyncio.Transport | None = None
        self._delayed_close: Callable[[], None] | None = None

    def heal_if_reachable(self) -> None:
        if self.is_partitioned():
            return
        if self._delayed_close is not None:
            self._delayed_close()
        elif self.has_dropped_data and self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self._connections.add(self)
        self.protocol.connection_made(_Transport(self, transport))  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        if self.is_partitioned():
            self.has_dropped_data = True
        else:
            deliver(self.protocol, data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.is_partitioned():
            self._delayed_close = lambda: self.connection_lost(exc)
        else:
            self._connections.discard(self)
            self.protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self.protocol.pause_writing()

    def resume_writing(self) -> None:
        self.protocol.resume_writing()


class _Transport:
    """The transport that the protocol sees."""

    def __init__(self, connection: _Connection, transport: asyncio.Transport) -> None:
        self._connection: Final = connection
        self._transport: Final = transport

    def write(self, data: bytes) -> None:
        if self._connection.is_partitioned():
            self._connection.has_dropped_data = True
        else:
            self._transport.write(data)

    def writelines(self, parts: Collection[bytes]) -> None:
        self.write(b"".join(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

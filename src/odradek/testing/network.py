"""The network as one node under test sees it, and its cuts.

A cut is silent, as a broken cable is: what is sent is lost, connections stand, new ones come to nothing, and nobody is
told. Once it is mended, connections that have lost something end, as TCP ends them. Clients are never cut off.
"""

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, Final

import uvloop

from odradek.testing.circumstances import Circumstances

_RETRY_SECONDS: Final = 0.02


class NodeLoop(uvloop.Loop):
    """The event loop of one node. Every connection between nodes is made by one of them, and so on one of these."""

    def __init__(self) -> None:
        super().__init__()
        self._node_id = -1
        self._circumstances = Circumstances()
        self._lines: Final[set[_Line]] = set()

    @classmethod
    def of(cls, node_id: int) -> "NodeLoop":
        """uvloop's own constructor takes no arguments."""
        loop = cls()
        loop._node_id = node_id
        return loop

    def live_with(self, circumstances: Circumstances) -> None:
        """From any thread; lost connections are told on this loop's."""
        self._circumstances = circumstances
        # A loop that is closed belongs to a node that has ended meanwhile.
        with suppress(RuntimeError):
            self.call_soon_threadsafe(self._look_for_mended_lines)

    def _is_cut(self, port: int) -> bool:
        """Between the node and whoever listens at the port."""
        side_of = self._circumstances.side_of
        side, other_side = side_of.get(self._node_id), side_of.get(self._circumstances.node_at.get(port, -1))
        return side is not None and other_side is not None and side != other_side

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.Protocol], host: str, port: int, **options: Any
    ) -> tuple[asyncio.BaseTransport, asyncio.Protocol]:
        def is_cut() -> bool:
            return self._is_cut(port)

        while is_cut():
            await asyncio.sleep(_RETRY_SECONDS)
        line = _Line(protocol_factory(), is_cut, self._lines)
        await super().create_connection(lambda: line, host, port, **options)
        assert line.transport is not None, "it is connected"
        return line.transport, line.end

    def _look_for_mended_lines(self) -> None:
        for line in list(self._lines):
            line.mended()


class _Line(asyncio.Protocol):
    """Between a connection and its protocol: lets everything pass, or nothing."""

    def __init__(self, end: asyncio.Protocol, is_cut: Callable[[], bool], lines: "set[_Line]") -> None:
        self.end: Final = end
        self.is_cut: Final = is_cut
        self.has_lost = False
        self._lines: Final = lines
        self.transport: asyncio.Transport | None = None
        self._late_news: Callable[[], None] | None = None

    def mended(self) -> None:
        if self.is_cut():
            return
        if self._late_news is not None:
            self._late_news()
        elif self.has_lost and self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self._lines.add(self)
        self.end.connection_made(_Sender(self, transport))  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        if self.is_cut():
            self.has_lost = True
        else:
            self.end.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.is_cut():
            self._late_news = lambda: self.connection_lost(exc)
        else:
            self._lines.discard(self)
            self.end.connection_lost(exc)

    def pause_writing(self) -> None:
        self.end.pause_writing()

    def resume_writing(self) -> None:
        self.end.resume_writing()


class _Sender:
    """The transport as the protocol sees it."""

    def __init__(self, line: _Line, transport: asyncio.Transport) -> None:
        self._line: Final = line
        self._transport: Final = transport

    def write(self, data: bytes) -> None:
        if self._line.is_cut():
            self._line.has_lost = True
        else:
            self._transport.write(data)

    def writelines(self, parts: Collection[bytes]) -> None:
        self.write(b"".join(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

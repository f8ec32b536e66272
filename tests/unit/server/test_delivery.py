"""Received bytes reach protocols of both kinds."""

import asyncio

from odradek.server.delivery import deliver


class _Buffered(asyncio.BufferedProtocol):
    """Takes three bytes at a time, and resizes its buffer when they have arrived."""

    def __init__(self) -> None:
        self.received = b""
        self._buffer = bytearray(3)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._buffer[:nbytes]
        self._buffer += b"?"
        del self._buffer[3:]


class _Streaming(asyncio.Protocol):
    received = b""

    def data_received(self, data: bytes) -> None:
        self.received += data


def test_protocols_of_both_kinds_receive_all_bytes() -> None:
    for protocol in (_Buffered(), _Streaming()):
        deliver(protocol, b"eight by")
        deliver(protocol, b"te")
        assert protocol.received == b"eight byte"

"""Passes received bytes to a protocol of either kind, as asyncio's transports do."""

import asyncio


def deliver(protocol: asyncio.BaseProtocol, data: bytes) -> None:
    """A buffered protocol ends the connection by ending its transport: it gets the rest too, and ignores it."""
    if not isinstance(protocol, asyncio.BufferedProtocol):
        assert isinstance(protocol, asyncio.Protocol)
        protocol.data_received(data)
        return
    rest = memoryview(data)
    while rest:
        buffer = memoryview(protocol.get_buffer(len(rest)))
        size = min(len(buffer), len(rest))
        buffer[:size] = rest[:size]
        rest = rest[size:]
        # A protocol may resize its buffer now.
        buffer.release()
        protocol.buffer_updated(size)

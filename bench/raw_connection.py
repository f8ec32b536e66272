"""Connections without a client library: requests are pipelined, and responses arrive in order.

They are light enough for thousands of connections in one process next to the measured broker.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Mapping
from typing import Any, cast

from odradek.client.address import Address
from tests.raw_wire import decode_response, encode_request

RESPONSE_S_MAX = 60.0


class ConnectionClosed(Exception):
    """The broker closed the connection or is not reachable."""


class RawConnection(asyncio.Protocol):
    """One connection. `send` returns a future of the response, header included, without the length."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._received = b""
        self._transport: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    def send(self, frame: bytes) -> "asyncio.Future[bytes]":
        if self._transport is None:
            raise ConnectionClosed
        response = asyncio.get_running_loop().create_future()
        self._waiting.append(response)
        self._transport.write(frame)
        return response

    async def request(self, api_key: int, version: int, fields: Mapping[str, Any]) -> Any:
        async with asyncio.timeout(RESPONSE_S_MAX):
            payload = await self.send(encode_request(api_key, version, 1, fields))
        return decode_response(api_key, version, payload)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport is not a subclass of asyncio.Transport.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        received = self._received + data if self._received else data
        at, end = 0, len(received)
        while end - at >= 4 and end - at >= (size := 4 + struct.unpack_from(">i", received, at)[0]):
            response = self._waiting.popleft()
            if not response.done():
                response.set_result(received[at + 4 : at + size])
            at += size
        self._received = received[at:]

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None
        while self._waiting:
            response = self._waiting.popleft()
            if not response.done():
                response.set_exception(ConnectionClosed())


async def connect(address: Address) -> RawConnection:
    try:
        _, connection = await asyncio.get_running_loop().create_connection(RawConnection, address.host, address.port)
    except OSError as problem:
        raise ConnectionClosed from problem
    return connection

"""Connections without a client behind them: requests are sent ahead, answers come in their order.

Light enough that thousands of them in one process leave the processor to the broker that is measured.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Mapping
from typing import Any, cast

from odradek.client.address import Address
from tests.raw_wire import decode_response, encode_request

ANSWER_S_MAX = 60.0


class LineClosed(Exception):
    """The broker hung up, or cannot be reached."""


class Line(asyncio.Protocol):
    """One connection. Every answer is the future that `send` gave, header and response without the length."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._received = b""
        self._transport: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    def send(self, frame: bytes) -> "asyncio.Future[bytes]":
        if self._transport is None:
            raise LineClosed
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._transport.write(frame)
        return answer

    async def ask(self, api_key: int, version: int, fields: Mapping[str, Any]) -> Any:
        async with asyncio.timeout(ANSWER_S_MAX):
            payload = await self.send(encode_request(api_key, version, 1, fields))
        return decode_response(api_key, version, payload)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's is none by its class.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        received = self._received + data if self._received else data
        at, end = 0, len(received)
        while end - at >= 4 and end - at >= (size := 4 + struct.unpack_from(">i", received, at)[0]):
            answer = self._waiting.popleft()
            if not answer.done():
                answer.set_result(received[at + 4 : at + size])
            at += size
        self._received = received[at:]

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None
        while self._waiting:
            answer = self._waiting.popleft()
            if not answer.done():
                answer.set_exception(LineClosed())


async def connect(address: Address) -> Line:
    try:
        _, line = await asyncio.get_running_loop().create_connection(Line, address.host, address.port)
    except OSError as problem:
        raise LineClosed from problem
    return line

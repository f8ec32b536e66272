"""One connection of a simulated client: versions negotiated, requests under way at the same time, deadlines."""

import asyncio
import struct
from typing import Final

from odradek.wire.apis import ApiKey
from odradek.wire.headers import skip_tagged_fields
from odradek.wire.schemas import Message, Schema, schema

_REQUEST_PREFIX: Final = struct.Struct(">ihhih")
_LENGTH: Final = struct.Struct(">i")
_API_VERSIONS_VERSION: Final = 3


class ConnectionLost(Exception):
    """The connection broke, or was never made: what was asked may have happened or not."""


class Wire(asyncio.Protocol):
    def __init__(self, client_id: str) -> None:
        self._client_id: Final = client_id.encode()
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._correlation_id = 0
        self._asked: Final[dict[int, tuple[Schema, asyncio.Future[Message]]]] = {}
        self.served: dict[int, tuple[int, int]] = {}

    @classmethod
    async def open(cls, host: str, port: int, *, client_id: str, timeout_seconds: float) -> "Wire":
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_seconds):
                _, wire = await loop.create_connection(lambda: cls(client_id), host, port)
                chosen = schema(ApiKey.API_VERSIONS, _API_VERSIONS_VERSION)
                request = chosen.new("ApiVersionsRequest", client_software_name="sim", client_software_version="1")
                response = await wire.ask(chosen, request)
        except (OSError, TimeoutError) as error:
            raise ConnectionLost(f"no connection to {host}: {error or 'no answer'}") from error
        wire.served = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
        return wire

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    def ask(self, chosen: Schema, request: Message) -> asyncio.Future[Message]:
        """Sends at once; the answer is the caller's to wait for."""
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        # Whoever gave up waiting does not want to hear of a lost connection either.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        if self._transport is None:
            answer.set_exception(ConnectionLost("the connection is closed"))
            return answer
        self._correlation_id += 1
        self._asked[self._correlation_id] = chosen, answer
        body = chosen.write(request)
        tags = b"\0" if chosen.flexible else b""
        size = 10 + len(self._client_id) + len(tags) + len(body)
        prefix = _REQUEST_PREFIX.pack(size, chosen.api_key, chosen.version, self._correlation_id, len(self._client_id))
        self._transport.write(b"".join((prefix, self._client_id, tags, body)))
        return answer

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            self._lose("given up")

    # ---- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._received)
            if len(self._received) < _LENGTH.size + size:
                return
            frame = self._received[_LENGTH.size : _LENGTH.size + size]
            del self._received[: _LENGTH.size + size]
            self._answer(frame)

    def _answer(self, frame: bytearray) -> None:
        (correlation_id,) = _LENGTH.unpack_from(frame)
        chosen, answer = self._asked.pop(correlation_id)
        start = skip_tagged_fields(frame, _LENGTH.size) if chosen.response_header_flexible else _LENGTH.size
        response, _ = chosen.read_response(bytes(frame), start)
        if not answer.done():
            answer.set_result(response)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(str(exc) if exc else "closed by the other side")

    def _lose(self, reason: str) -> None:
        self._transport = None
        for _, answer in self._asked.values():
            if not answer.done():
                answer.set_exception(ConnectionLost(reason))
        self._asked.clear()

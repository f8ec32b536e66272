"""Decodes the requests and responses written to a connection, for the timeline and for the watchers of an API."""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from kio.schema.index import api_key_map

from odradek.sim.socket_end import SocketEnd
from odradek.wire.headers import read_request_header, skip_tagged_fields
from odradek.wire.schemas import Message, schema

_LENGTH: Final = Struct(">i")
_REQUEST: Final = Struct(">hhi")
_CORRELATION_ID: Final = Struct(">i")
_PENDING_MAX: Final = 1000


class Exchange(NamedTuple):
    """A request, from its header on."""

    requester: str
    responder: str
    api_key: int
    version: int
    correlation_id: int
    request: bytes

    def read_request(self) -> Message:
        chosen = schema(self.api_key, self.version)
        start = read_request_header(bytearray(self.request)).end
        if chosen.flexible:
            start = skip_tagged_fields(self.request, start)
        return chosen.read_request(self.request, start)[0]

    def read_response(self, frame: bytes) -> Message:
        """Decodes the frame of the response."""
        chosen = schema(self.api_key, self.version)
        start = _CORRELATION_ID.size
        if chosen.response_header_flexible:
            start = skip_tagged_fields(frame, start)
        return chosen.read_response(frame, start)[0]

    def __str__(self) -> str:
        return f"{api_key_map.get(self.api_key, self.api_key)} v{self.version} #{self.correlation_id}"


# Called with each request, and again with the frame of its response.
Watcher = Callable[[Exchange, bytes | None], None]


class WireNames:
    """The pending requests of one connection by correlation id, so that responses can be named."""

    def __init__(self, client: SocketEnd) -> None:
        self._client: Final = client
        self._pending: Final[dict[int, Exchange]] = {}

    @staticmethod
    def of(client: SocketEnd) -> "WireNames":
        """The same object for both ends; the connecting end owns it."""
        if client.names is None:
            client.names = WireNames(client)
        return client.names

    def on_send(self, end: SocketEnd, data: bytes) -> None:
        for frame in _frames(data):
            if end is self._client:
                self._on_request(end, frame)
            else:
                self._on_response_frame(end, frame)

    def _on_request(self, end: SocketEnd, frame: bytes) -> None:
        if len(frame) < _REQUEST.size:
            return
        api_key, version, correlation_id = _REQUEST.unpack_from(frame)
        watcher = end.watcher(api_key)
        request = b"" if watcher is None else frame
        exchange = Exchange(end.host, end.remote_host, api_key, version, correlation_id, request)
        if len(self._pending) < _PENDING_MAX:
            self._pending[correlation_id] = exchange
        end.note(f"requests {end.remote_host} {exchange}, {len(frame) + _LENGTH.size} bytes")
        if watcher is not None:
            watcher(exchange, None)

    def _on_response_frame(self, end: SocketEnd, frame: bytes) -> None:
        if len(frame) < _CORRELATION_ID.size:
            return
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        exchange = self._pending.pop(correlation_id, None)
        name = f"#{correlation_id}" if exchange is None else exchange
        end.note(f"responds to {end.remote_host} {name}, {len(frame) + _LENGTH.size} bytes")
        if exchange is not None and (watcher := end.watcher(exchange.api_key)) is not None:
            watcher(exchange, frame)


def _frames(data: bytes) -> Iterator[bytes]:
    """Data that is written at once begins with a frame; the last frame may be incomplete."""
    position = 0
    while len(data) - position >= _LENGTH.size:
        (size,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        if size < 0:
            return
        yield data[position : position + size]
        position += size

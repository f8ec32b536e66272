"""Decodes the requests and responses written to a connection, for the timeline and for the watchers of an API."""

from collections import deque
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, NamedTuple, Protocol

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
    place: int
    """When it was sent: see `Scheduler.next_place`."""

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


# Called with each request, and again with the frame of its response if it was written in one piece.
Watcher = Callable[[Exchange, bytes | None], None]


class ResponseObserver(Protocol):
    """Receives the bytes of one response, from its length on."""

    def on_write(self, count: int) -> None:
        """The program has written so many bytes, in one piece."""

    def on_send(self, data: bytes) -> None:
        """The socket has taken these bytes."""


# Called when a response is written, perhaps only its first bytes, with the sending end and the size in bytes.
ResponseWatcher = Callable[[SocketEnd, Exchange, int], ResponseObserver]


class _Observed(NamedTuple):
    """A response whose bytes the socket has not taken yet."""

    start: int
    """Its place in all bytes that were written to the connection."""
    end: int
    observer: ResponseObserver


class WireNames:
    """The pending requests of one connection by correlation id, so that responses can be named."""

    def __init__(self, client: SocketEnd) -> None:
        self._client: Final = client
        self._pending: Final[dict[int, Exchange]] = {}
        # Of responses: the bytes written and sent so far, and the bytes that are missing of the last one.
        self._written_bytes = 0
        self._sent_bytes = 0
        self._missing_bytes = 0
        self._last: ResponseObserver | None = None
        self._observed: Final[deque[_Observed]] = deque()

    @staticmethod
    def of(client: SocketEnd) -> "WireNames":
        """The same object for both ends; the connecting end owns it."""
        if client.names is None:
            client.names = WireNames(client)
        return client.names

    def on_write(self, end: SocketEnd, data: memoryview) -> None:
        """The program writes to the transport. Requests are written whole, responses perhaps in several pieces."""
        if end is self._client:
            for _, size, frame in _frames(bytes(data)):
                if len(frame) == size:
                    self._on_request(end, frame)
            return
        position = min(self._missing_bytes, len(data))
        self._missing_bytes -= position
        if position and self._last is not None:
            self._last.on_write(position)
        if position < len(data):
            for start, size, frame in _frames(bytes(data), position):
                self._missing_bytes = size - len(frame)
                self._on_response_frame(end, frame, size, self._written_bytes + start)
        self._written_bytes += len(data)

    def on_send(self, end: SocketEnd, data: bytes) -> None:
        """The socket takes bytes from the transport."""
        if end is self._client:
            return
        start = self._sent_bytes
        self._sent_bytes = sent = start + len(data)
        observed = self._observed
        while observed and observed[0].start < sent:
            first = observed[0]
            first.observer.on_send(data[max(0, first.start - start) : first.end - start])
            if first.end > sent:
                break
            observed.popleft()

    def _on_request(self, end: SocketEnd, frame: bytes) -> None:
        if len(frame) < _REQUEST.size:
            return
        api_key, version, correlation_id = _REQUEST.unpack_from(frame)
        watcher = end.watcher(api_key)
        is_watched = watcher is not None or end.response_watcher(api_key) is not None
        exchange = Exchange(
            end.host,
            end.remote_host,
            api_key,
            version,
            correlation_id,
            frame if is_watched else b"",
            end.process.scheduler.next_place(),
        )
        if len(self._pending) < _PENDING_MAX:
            self._pending[correlation_id] = exchange
        end.note(f"requests {end.remote_host} {exchange}, {len(frame) + _LENGTH.size} bytes")
        if watcher is not None:
            watcher(exchange, None)

    def _on_response_frame(self, end: SocketEnd, frame: bytes, size: int, start: int) -> None:
        if len(frame) < _CORRELATION_ID.size:
            return
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        exchange = self._pending.pop(correlation_id, None)
        name = f"#{correlation_id}" if exchange is None else exchange
        total = size + _LENGTH.size
        end.note(f"responds to {end.remote_host} {name}, {total} bytes")
        self._last = None
        if exchange is None:
            return
        if len(frame) == size and (watcher := end.watcher(exchange.api_key)) is not None:
            watcher(exchange, frame)
        response_watcher = end.response_watcher(exchange.api_key)
        if response_watcher is not None:
            self._last = observer = response_watcher(end, exchange, total)
            self._observed.append(_Observed(start, start + total, observer))
            observer.on_write(_LENGTH.size + len(frame))


def _frames(data: bytes, position: int = 0) -> Iterator[tuple[int, int, bytes]]:
    """The position and announced size of each frame, and its bytes; the last frame may be incomplete."""
    while len(data) - position >= _LENGTH.size:
        start = position
        (size,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        if size < 0:
            return
        yield start, size, data[position : position + size]
        position += size

"""The client side of one Kafka connection, without I/O: bytes in, events out.

A session negotiates versions with ApiVersions, numbers requests, and matches responses to them in the order in which
they were sent. Peer links, the client and the simulator's clients each add only their transport. A session knows no
sockets, clocks or retries: the caller passes the time.
"""

import struct
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final, NamedTuple

from kio.schema.index import api_key_map, schema_name_map

import odradek
from odradek.base.errors import ErrorCode
from odradek.wire.apis import ApiKey
from odradek.wire.headers import skip_tagged_fields
from odradek.wire.schemas import Message, Schema, SerialError, schema

# Far more than any caller has in flight: a bound, not a window.
IN_FLIGHT_MAX: Final = 1000

_REQUEST_PREFIX: Final = struct.Struct(">ihhih")
_LENGTH: Final = struct.Struct(">i")
_CORRELATION_ID: Final = struct.Struct(">i")
_ERROR_CODE: Final = struct.Struct(">h")
_CORRELATION_ID_MAX: Final = 0x7FFFFFFF

VersionRange = tuple[int, int]
# Takes the schema of a response, its frame, and where its body begins. Raises SerialError or ValueError.
Decode = Callable[[Schema, bytearray, int], Message]


class UnsupportedApi(Exception):
    """The server serves no version of an API that is known on this side. `served` is None if it serves none at all."""

    def __init__(self, api: str, served: VersionRange | None) -> None:
        versions = "" if served is None else f" (the server supports versions {served[0]} to {served[1]})"
        super().__init__(f"the server does not support a known version of {api}{versions}")
        self.api: Final = api
        self.served: Final = served


class TooManyInFlight(Exception):
    """The request was not sent: too many requests wait for their responses."""


class Sent(NamedTuple):
    correlation_id: int
    data: bytes
    """The frame, for the transport to write."""


class ResponseReceived(NamedTuple):
    correlation_id: int
    response: Message


class DataToSend(NamedTuple):
    """The session itself sends another request: the transport writes `data`."""

    data: bytes


class VersionsNegotiated(NamedTuple):
    """`served` and `supported_features` are set; other requests may follow."""


class VersionsRefused(NamedTuple):
    error: ErrorCode


class SessionFailed(NamedTuple):
    """The server broke the protocol. The last event: the transport closes the connection."""

    reason: str


Event = ResponseReceived | DataToSend | VersionsNegotiated | VersionsRefused | SessionFailed


class _InFlight(NamedTuple):
    correlation_id: int
    schema: Schema
    deadline: float | None
    is_negotiation: bool


def decode_in_place(chosen: Schema, frame: bytearray, position: int) -> Message:
    """Checks lengths first, and does not copy the frame, which may be large."""
    return chosen.read_response_in_place(memoryview(frame).toreadonly(), position)


def decode_checked(chosen: Schema, frame: bytearray, position: int) -> Message:
    """Checks lengths and the number of elements first: a damaged frame must not exhaust the memory of a broker."""
    return chosen.read_foreign_response(memoryview(frame).toreadonly(), position)


class ClientSession:
    def __init__(self, client_id: str, *, response_bytes_max: int, decode: Decode = decode_checked) -> None:
        self._client_id: Final = client_id.encode()
        self._response_bytes_max: Final = response_bytes_max
        self._decode: Final = decode
        self._in_flight: Final[deque[_InFlight]] = deque()
        self._correlation_id = 0
        # First a frame's length, then the frame.
        self._buffer = bytearray(_LENGTH.size)
        self._filled = 0
        self._reads_length = True
        self._has_failed = False
        self._has_renegotiated = False
        self.served: Mapping[int, VersionRange] = {}
        """The lowest and the highest version of each API that the server supports."""
        self.supported_features: Mapping[str, VersionRange] = {}

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def seconds_left(self, now: float) -> float | None:
        """The time until the earliest deadline in flight, 0 once it has passed; None without a deadline.

        The transport closes the connection then: requests behind the late response would wait as long.
        """
        deadlines = [one.deadline for one in self._in_flight if one.deadline is not None]
        return max(0.0, min(deadlines) - now) if deadlines else None

    # Requests

    def negotiate(self, *, deadline: float | None = None) -> bytes:
        """The first frame of a connection: ApiVersions, in the newest version."""
        assert not self._in_flight and not self.served, "versions are negotiated once, before other requests"
        return self._send_api_versions(max(schema_name_map[api_key_map[ApiKey.API_VERSIONS]]), deadline)

    def choose_schema(self, api_key: int, *, highest: int | None = None) -> Schema:
        """The newest version that both sides know, not above `highest`. Raises UnsupportedApi."""
        name = api_key_map[api_key]
        served = self.served.get(api_key)
        if served is None:
            raise UnsupportedApi(name, None)
        lowest_known, highest_known = _known_versions(name)
        version = min(served[1], highest_known if highest is None else highest)
        if version < max(served[0], lowest_known):
            raise UnsupportedApi(name, served)
        return schema(api_key, version)

    def send(
        self, chosen: Schema, request: Message, *, deadline: float | None = None, expects_response: bool = True
    ) -> Sent:
        """Numbers and encodes a request. A Produce request with acks=0 expects no response.

        Raises TooManyInFlight, and struct.error or ValueError for a request that cannot be encoded.
        """
        if len(self._in_flight) >= IN_FLIGHT_MAX:
            raise TooManyInFlight(f"{IN_FLIGHT_MAX} requests wait for their responses")
        body = chosen.write(request)
        tags = b"\0" if chosen.flexible else b""
        self._correlation_id = correlation_id = (self._correlation_id + 1) & _CORRELATION_ID_MAX
        client_id = self._client_id
        prefix = _REQUEST_PREFIX.pack(
            10 + len(client_id) + len(tags) + len(body), chosen.api_key, chosen.version, correlation_id, len(client_id)
        )
        if expects_response:
            self._in_flight.append(_InFlight(correlation_id, chosen, deadline, is_negotiation=False))
        return Sent(correlation_id, b"".join((prefix, client_id, tags, body)))

    # Responses

    def receive(self, data: bytes) -> list[Event]:
        """The events of bytes that the transport read."""
        events: list[Event] = []
        view = memoryview(data)
        while view and not self._has_failed:
            space = self.get_buffer()
            size = min(len(space), len(view))
            space[:size] = view[:size]
            view = view[size:]
            events += self.buffer_updated(size)
        return events

    def get_buffer(self) -> memoryview:
        """Where a transport may read its next bytes to, without a copy; `buffer_updated` follows."""
        return memoryview(self._buffer)[self._filled :]

    def buffer_updated(self, size: int) -> list[Event]:
        assert not self._has_failed, "a failed session receives nothing"
        self._filled += size
        if self._filled < len(self._buffer):
            return []
        complete, self._filled = self._buffer, 0
        if self._reads_length:
            return self._on_length(*_LENGTH.unpack(complete))
        self._buffer, self._reads_length = bytearray(_LENGTH.size), True
        return self._on_frame(complete)

    def _on_length(self, size: int) -> list[Event]:
        if not 0 <= size <= self._response_bytes_max:
            return self._fail(
                f"the server announced a response of {size} bytes, where {self._response_bytes_max} is the maximum: "
                "it does not speak Kafka's protocol, or expects TLS"
            )
        if size < _CORRELATION_ID.size:
            return self._fail("the server sent a response without a header")
        self._buffer, self._reads_length = bytearray(size), False
        return []

    def _on_frame(self, frame: bytearray) -> list[Event]:
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        if not self._in_flight:
            return self._fail(f"the server sent a response to request {correlation_id}, but none is in flight")
        request = self._in_flight[0]
        if request.correlation_id != correlation_id:
            return self._fail(
                f"the server sent a response to request {correlation_id} instead of request {request.correlation_id}"
            )
        try:
            response = self._decode_response(request, frame)
        except (SerialError, ValueError) as error:
            return self._fail(f"the server sent a response that cannot be decoded ({error or type(error).__name__})")
        self._in_flight.popleft()
        if request.is_negotiation:
            return self._on_versions(request, response)
        return [ResponseReceived(correlation_id, response)]

    def _decode_response(self, request: _InFlight, frame: bytearray) -> Message:
        chosen, position = request.schema, _CORRELATION_ID.size
        if chosen.response_header_flexible:
            position = skip_tagged_fields(frame, position)
        if request.is_negotiation and len(frame) >= position + _ERROR_CODE.size:
            (code,) = _ERROR_CODE.unpack_from(frame, position)
            # A server that does not know the version responds in version 0.
            if code == ErrorCode.unsupported_version:
                chosen = schema(ApiKey.API_VERSIONS, 0)
        return self._decode(chosen, frame, position)

    # Versions

    def _send_api_versions(self, version: int, deadline: float | None) -> bytes:
        chosen = schema(ApiKey.API_VERSIONS, version)
        request = chosen.new(
            "ApiVersionsRequest", client_software_name="odradek", client_software_version=odradek.__version__
        )
        correlation_id, data = self.send(chosen, request, expects_response=False)
        self._in_flight.append(_InFlight(correlation_id, chosen, deadline, is_negotiation=True))
        return data

    def _on_versions(self, request: _InFlight, response: Message) -> list[Event]:
        ranges = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
        if response.error_code is ErrorCode.unsupported_version and not self._has_renegotiated:
            self._has_renegotiated = True
            _, highest = ranges.get(ApiKey.API_VERSIONS, (0, 0))
            version = max(0, min(highest, request.schema.version))
            return [DataToSend(self._send_api_versions(version, request.deadline))]
        if response.error_code is not ErrorCode.none:
            return [VersionsRefused(response.error_code)]
        self.served = ranges
        self.supported_features = {
            one.name: (one.min_version, one.max_version) for one in getattr(response, "supported_features", ())
        }
        return [VersionsNegotiated()]

    def _fail(self, reason: str) -> list[Event]:
        self._has_failed = True
        return [SessionFailed(reason)]


@cache
def _known_versions(name: str) -> VersionRange:
    """The lowest and the highest version of an API that this side can read and write."""
    versions = schema_name_map[name]
    return min(versions), max(versions)

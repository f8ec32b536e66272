"""One connection to another node, as long as it lasts: requests out, answers in, in the same order.

Knows frames and headers; nothing of versions agreed upon, of reconnecting, or of what is asked.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from odradek.server.connecting import PeerError, Place
from odradek.wire.framing import FrameReader
from odradek.wire.headers import skip_tagged_fields
from odradek.wire.schemas import Message, Schema, SerialError

# Requests that wait for their answers. Far more than anybody here has under way: a bound, not a window.
UNDER_WAY_MAX: Final = 1000

_REQUEST_PREFIX: Final = struct.Struct(">ihhih")
_CORRELATION_ID: Final = struct.Struct(">i")
_CORRELATION_ID_MAX: Final = 0x7FFFFFFF

# Gets the frame of an answer and where its body begins, behind the correlation id.
ReadAnswer = Callable[[bytes, int], Message]


class Disconnected(PeerError):
    """The connection ended before the answer: what was asked may have been done, or not."""


class Overloaded(PeerError):
    """Too many requests wait for their answers already. This one was not sent."""


class _Asked(NamedTuple):
    correlation_id: int
    read: ReadAnswer
    answer: asyncio.Future[Message]


class PeerLink(asyncio.Protocol):
    def __init__(
        self, place: Place, client_id: bytes, answer_bytes_max: int, on_end: Callable[["PeerLink"], None]
    ) -> None:
        """`on_end` is called once, whoever ended it, when those who waited have been told."""
        self._place: Final = place
        self._client_id: Final = client_id
        self._answer_bytes_max: Final = answer_bytes_max
        self._on_end: Final = on_end
        self._reader: Final = FrameReader(answer_bytes_max)
        self._asked: Final[deque[_Asked]] = deque()
        self._correlation_id = 0
        self._transport: asyncio.Transport | None = None
        self._end: str | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and self._end is None

    def send(self, chosen: Schema, request: Message, read: ReadAnswer | None = None) -> asyncio.Future[Message]:
        """Sends at once; the answer is the caller's to wait for. `read` is for one that may be of another version.

        Raises Disconnected, Overloaded, and SerialError or ValueError for a request that cannot be written.
        """
        if self._transport is None or self._end is not None:
            raise Disconnected(self._place, self._end or "not connected")
        if len(self._asked) >= UNDER_WAY_MAX:
            raise Overloaded(self._place, f"{UNDER_WAY_MAX} requests wait for its answers")
        body = chosen.write(request)
        tags = b"\0" if chosen.flexible else b""
        self._correlation_id = correlation_id = (self._correlation_id + 1) & _CORRELATION_ID_MAX
        prefix = _REQUEST_PREFIX.pack(
            10 + len(self._client_id) + len(tags) + len(body),
            chosen.api_key,
            chosen.version,
            correlation_id,
            len(self._client_id),
        )
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        # Whoever gave up waiting does not want to hear of the connection's end either.
        answer.add_done_callback(_retrieve)
        self._asked.append(_Asked(correlation_id, read or partial(read_answer, chosen), answer))
        self._transport.write(b"".join((prefix, self._client_id, tags, body)))
        return answer

    def end(self, reason: str) -> None:
        """Ends the connection at once; what was asked on it fails with the reason."""
        if self._end is not None:
            return
        self._end = reason
        if self._transport is not None:
            self._transport.abort()
        asked = list(self._asked)
        self._asked.clear()
        for one in asked:
            if not one.answer.done():
                one.answer.set_exception(Disconnected(self._place, reason))
        self._on_end(self)

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "pause_reading")
        self._transport = transport  # type: ignore[assignment]
        if self._end is not None:
            transport.abort()  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        for frame in self._reader.receive(data):
            if self._end is None:
                self._take(bytes(frame))
        if self._reader.failure is not None:
            self.end(
                f"it announced an answer that is longer than {self._answer_bytes_max} bytes: "
                "it does not speak Kafka's protocol, or expects TLS"
            )

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None:
            self.end("it closed the connection")
        else:
            self.end(f"the connection broke ({getattr(exc, 'strerror', None) or exc})")

    def _take(self, frame: bytes) -> None:
        if len(frame) < _CORRELATION_ID.size:
            self.end("it sent an answer without a header")
            return
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        if not self._asked or self._asked[0].correlation_id != correlation_id:
            due = f"where {self._asked[0].correlation_id} was due" if self._asked else "and nothing was asked"
            self.end(f"it answered request {correlation_id}, {due}")
            return
        one = self._asked[0]
        try:
            response = one.read(frame, _CORRELATION_ID.size)
        except SerialError as error:
            self.end(f"its answer cannot be read ({error or type(error).__name__})")
            return
        self._asked.popleft()
        if not one.answer.done():
            one.answer.set_result(response)


def read_answer(chosen: Schema, frame: bytes, position: int) -> Message:
    """Raises SerialError."""
    if chosen.response_header_flexible:
        position = skip_tagged_fields(frame, position)
    return chosen.read_foreign_response(frame, position)


def _retrieve(answer: asyncio.Future[Message]) -> None:
    if not answer.cancelled():
        answer.exception()

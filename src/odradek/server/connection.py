"""One client's connection: frames in, handlers called one after the other, answers out in the same order.

Kafka's rule holds: the next request of a connection is taken up only when the one before it was answered. There is one
exception: what a producer sends is appended while its earlier requests still wait for replicas, so that these get much
at once, and so is what a consumer commits. What else a client sends meanwhile waits here; past a bound the socket is no
longer read, so a fast sender pays with its own time.
Many requests at once are handled a few at a time, so that other connections have their turn between them.
"""

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Callable
from enum import Enum
from inspect import CORO_CREATED, getcoroutinestate, isawaitable, iscoroutine
from typing import Any, Final, Protocol

from odradek.base.deferred import DeferredResponse
from odradek.instruments.requests import RequestMeter
from odradek.server.connecting import HostPort
from odradek.server.context import CLOSE_CONNECTION, RequestContext
from odradek.wire.error_codes import error_codes
from odradek.wire.framing import FrameReader
from odradek.wire.headers import RequestHeader, read_request_header, skip_tagged_fields
from odradek.wire.schemas import Schema, SerialError

logger = logging.getLogger(__name__)

# Requests that arrived while one is being handled. Five in flight is what a pipelining producer uses.
WAITING_FRAMES_MAX: Final = 16
# And how many bytes of them, the begin of an unfinished one included.
WAITING_BYTES_MAX: Final = 1 << 20
# Requests that were executed, and whose responses are pending.
PENDING_RESPONSES_MAX: Final = 16
HANDLED_IN_A_ROW_MAX: Final = 16
# A client that has hung up may have sent requests that want no answer: they are handled, within this time.
LAST_REQUESTS_SECONDS_MAX: Final = 10.0
# Two answers of head and body; a third takes them along. With all of them the client would have nothing to do until the
# last is made.
HELD_BACK_PARTS_MAX: Final = 4
# An answer from this size on is sent at once, and what was held back before it.
HELD_BACK_BYTES_MAX: Final = 16_384
# Below this, copying the parts together costs less than handing them over one by one.
JOINED_BYTES_MAX: Final = 65_536
_LENGTH: Final = struct.Struct(">i")
# APIs and versions that one client is remembered to use. Most use three or four.
KNOWN_REQUESTS_MAX: Final = 16
# API, version and correlation id; the client's id follows.
_NUMBERS: Final = struct.Struct(">hhi")
# Of an answer: length and correlation id; in flexible versions no tagged fields follow.
_HEAD: Final = struct.Struct(">ii")
_FLEXIBLE_HEAD: Final = struct.Struct(">iib")


class Dispatcher(Protocol):
    """Finds the handler of a request and calls it."""

    def schema_of(self, header: RequestHeader) -> Schema:
        """Raises UnsupportedRequest for what this listener does not serve."""

    def meter_of(self, messages: Schema) -> RequestMeter:
        """What counts the requests of one connection to this version."""

    def dispatch(self, frame: bytearray, body: int, context: RequestContext) -> Any: ...

    def refuse_version(self, header: RequestHeader) -> bytes | None:
        """A whole response frame for an unsupported version, where Kafka gives one; else the connection ends."""


class UnsupportedRequest(Exception):
    """An API or version that this listener does not serve."""


# Of a request that is measured: when it came, when its handler began, and when that had done what it could at once.
_Times = tuple[float, float, float]


class _PendingResponse:
    """A response that is not complete, or that must not be written before the earlier ones."""

    __slots__ = ("context", "correlation_id", "deferred", "times")

    def __init__(
        self,
        context: RequestContext,
        correlation_id: int,
        deferred: DeferredResponse,
        times: "_Times | None" = None,
    ) -> None:
        self.context: Final = context
        self.correlation_id: Final = correlation_id
        self.deferred: Final = deferred
        self.times: Final = times


class Admission(Enum):
    ADMITTED = 1
    # Until there is room: then `ClientConnection.on_admitted` is called.
    WAITING = 2
    REFUSED = 3


class ConnectionLimits(Protocol):
    def admit(self, connection: "ClientConnection") -> Admission: ...

    def release(self, connection: "ClientConnection") -> None:
        """The connection has ended, whatever became of its admission."""

    def monotonic(self) -> float:
        """The time by which connections say when they were last active."""


class ClientConnection(asyncio.Protocol):
    def __init__(
        self,
        dispatcher: Dispatcher,
        limits: ConnectionLimits,
        listener_name: str,
        request_bytes_max: int,
        *,
        on_connect: Callable[[str], None] | None = None,
    ) -> None:
        self._on_connect: Final = on_connect
        self._dispatcher: Final = dispatcher
        self._limits: Final = limits
        self._monotonic: Final = limits.monotonic
        self.last_active = limits.monotonic()
        """When bytes last came, or an answer was given."""
        self.listener_name: Final = listener_name
        self._reader: Final = FrameReader(request_bytes_max)
        self._waiting: Final[deque[bytearray]] = deque()
        # When each of them came.
        self._arrivals: Final[deque[float]] = deque()
        self._waiting_bytes = 0
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        # What it is to await.
        self._awaited: Any = None
        # The response that the next request waits for.
        self._blocking: _PendingResponse | None = None
        # Responses that the next request to the same API does not wait for, in the order of their requests.
        self._pending: Final[deque[_PendingResponse]] = deque()
        # The key of that API, as bytes.
        self._pending_api: bytes | bytearray = b""
        self._send_is_scheduled = False
        self._is_in = False
        self._handling = False
        # A client gives its id, with its length, in every request, and it is always the same.
        self._client_part = b""
        # So that requests differ in nothing but their bodies, and a number that comes back with the answer.
        self._contexts: Final[dict[tuple[int, int], RequestContext]] = {}
        self._correlation_id = 0
        # Answers that wait for those of the next requests; None while none may.
        self._held_back: list[bytes] | None = None
        self._turn_is_due = False
        self._write_blocked = False
        self._reading_paused = False
        # No more requests will come; those that came are handled first.
        self._is_ending = False
        self._end_reason: str | None = None
        self._last_call: asyncio.TimerHandle | None = None
        self._client_has_left = False
        self.was_closed_here = False
        """Whether it was this node that ended it, and not the client."""
        self._has_ended = False
        # Whom to tell of the end, each once.
        self._to_tell: dict[Callable[[], None], None] | None = None
        self.peer_host = ""
        self._peer_port = 0

    @property
    def peer(self) -> str:
        """The client's address, for log messages."""
        return str(HostPort(self.peer_host, self._peer_port))

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "pause_reading")
        self._transport = transport  # type: ignore[assignment]
        peer = transport.get_extra_info("peername")
        if peer:
            self.peer_host, self._peer_port = peer[:2]
        logger.debug("Connection from %s opened on listener %s", self.peer, self.listener_name)
        admission = self._limits.admit(self)
        if admission is Admission.REFUSED:
            transport.close()
        elif admission is Admission.WAITING:
            # Not at once: uvloop begins to read only after this call.
            asyncio.get_running_loop().call_soon(self._pause_reading)
        else:
            self.on_admitted()

    def on_admitted(self) -> None:
        """There is room for this connection: its requests are handled from now on."""
        self._is_in = True
        self.last_active = self._monotonic()
        if self._on_connect is not None:
            self._on_connect(self.peer_host)
        self._work_off()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._forget_waiting()
        # They name this connection, which would wait for the garbage collector.
        self._contexts.clear()
        if self._task is not None:
            self._task.cancel()
            if iscoroutine(self._awaited) and getcoroutinestate(self._awaited) == CORO_CREATED:
                # Its task had no turn yet, and will have none: Python would complain.
                self._awaited.close()
        if self._blocking is not None:
            self._blocking.deferred.cancel()
        for pending in self._pending:
            pending.deferred.cancel()
        self._pending.clear()
        if self._last_call is not None:
            self._last_call.cancel()
        self._limits.release(self)
        self._has_ended = True
        logger.debug("Connection from %s closed by %s", self.peer, "this node" if self.was_closed_here else "client")
        to_tell, self._to_tell = self._to_tell, None
        for told in to_tell or ():
            told()

    def on_close(self, told: Callable[[], None]) -> None:
        if self._has_ended:
            asyncio.get_running_loop().call_soon(told)
        elif self._to_tell is None:
            self._to_tell = {told: None}
        else:
            self._to_tell[told] = None

    def data_received(self, data: bytes) -> None:
        self.last_active = now = self._monotonic()
        frames = self._reader.receive(data)
        if len(frames) == 1 and not self._is_busy and not (self._pending and self._must_wait(frames[0])):
            self._handle(frames[0], now)
        elif frames:
            self._waiting.extend(frames)
            if len(frames) == 1:
                self._arrivals.append(now)
            else:
                self._arrivals.extend([now] * len(frames))
            self._waiting_bytes += sum(map(len, frames))
            self._work_off()
        if self._reader.failure is not None:
            self._end_after_the_last(self._reader.failure)
        elif self._is_full:
            self._pause_reading()

    def eof_received(self) -> bool:
        """Keeps the connection while there is something to be handled: whoever wants no answer need not wait for it."""
        self._client_has_left = True
        if not self._is_busy and not self._pending:
            return False
        self._end_after_the_last(None)
        return self._transport is not None

    def pause_writing(self) -> None:
        self._write_blocked = True

    def resume_writing(self) -> None:
        self._write_blocked = False
        self.last_active = self._monotonic()
        self._work_off()

    def close(self) -> None:
        if self._transport is not None:
            self.was_closed_here = not self._client_has_left
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self.was_closed_here = not self._client_has_left
            self._transport.abort()

    # requests

    @property
    def _is_busy(self) -> bool:
        """Whether a frame that comes now has to wait."""
        return self._handling or self._write_blocked or bool(self._waiting) or not self._is_in

    def _must_wait(self, frame: bytearray) -> bool:
        """Whether this request waits for the pending responses: it does unless it is for the same API."""
        return len(self._pending) >= PENDING_RESPONSES_MAX or not frame.startswith(self._pending_api)

    @property
    def _is_full(self) -> bool:
        return (
            len(self._waiting) >= WAITING_FRAMES_MAX
            or self._waiting_bytes + self._reader.held_bytes >= WAITING_BYTES_MAX
        ) and self._is_busy

    def _pause_reading(self) -> None:
        if not self._reading_paused and self._transport is not None:
            self._reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._reading_paused and self._transport is not None:
            self._reading_paused = False
            self._transport.resume_reading()

    def _work_off(self) -> None:
        waiting = self._waiting
        handled = 0
        if not self._is_in:
            return
        # Answers to requests that came together leave a few together: a call of the system less for each.
        held_back: list[bytes] = []
        self._held_back = held_back
        try:
            while waiting and not self._handling and not self._write_blocked and self._transport is not None:
                if self._pending and self._must_wait(waiting[0]):
                    break
                if handled == HANDLED_IN_A_ROW_MAX:
                    self._take_turns()
                    return
                handled += 1
                frame = waiting.popleft()
                self._waiting_bytes -= len(frame)
                self._handle(frame, self._arrivals.popleft(), True)
        finally:
            self._held_back = None
            if held_back:
                self._send(held_back, 0)
        if self._transport is None:
            return
        if self._is_ending:
            if not self._is_busy and not self._pending:
                self._hang_up(self._end_reason)
        elif self._reading_paused and not self._is_full:
            self._resume_reading()

    def _take_turns(self) -> None:
        if not self._turn_is_due:
            self._turn_is_due = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._turn_is_due = False
        self._work_off()

    def _end_after_the_last(self, reason: str | None) -> None:
        if not self._is_ending:
            self._is_ending = True
            self._end_reason = reason
            self._pause_reading()
            self._last_call = asyncio.get_running_loop().call_later(LAST_REQUESTS_SECONDS_MAX, self.abort)
        self._work_off()

    def _forget_waiting(self) -> None:
        self._waiting.clear()
        self._arrivals.clear()
        self._waiting_bytes = 0

    def _handle(self, frame: bytearray, arrived: float, has_waited: bool = False) -> None:
        started = None
        try:
            context = None
            client_part = self._client_part
            if client_part and frame.startswith(client_part, _NUMBERS.size):
                api_key, api_version, self._correlation_id = _NUMBERS.unpack_from(frame)
                context = self._contexts.get((api_key, api_version))
            if context is None:
                context = self._learn(frame)
                if context is None:
                    return
            body = _NUMBERS.size + len(self._client_part)
            if context.schema.flexible:
                # Hardly anybody sends tagged fields in a header.
                body = body + 1 if frame.startswith(b"\0", body) else skip_tagged_fields(frame, body)
            requests = context.meter.requests
            requests.left = left = requests.left - 1
            if not left:
                requests.restart_stride()
                started = self._monotonic() if has_waited else arrived
            answer = self._dispatcher.dispatch(frame, body, context)
        except SerialError as error:
            self._hang_up(_unreadable(error))
            return
        except Exception:
            # A fault of ours while handling one request ends this connection alone.
            logger.exception("Request with header %s from %s failed", frame[:8].hex(), self.peer)
            self._hang_up(None)
            return
        kind = answer.__class__
        if kind is bytes or kind is list:
            # Hot answers come encoded.
            self._answer(answer, context)
            if started is not None:
                now = self._monotonic()
                context.meter.requests.measure(arrived, started, now, now)
            return
        times = None if started is None else (arrived, started, self._monotonic())
        if isinstance(answer, DeferredResponse):
            pending = _PendingResponse(context, self._correlation_id, answer, times)
            if answer.allows_next_request:
                self._pending_api = frame[:2]
                self._pending.append(pending)
            else:
                self._handling = True
                self._blocking = pending
            answer.on_complete(self._on_complete)
        elif isawaitable(answer):
            self._handling = True
            self._awaited = answer
            self._task = asyncio.ensure_future(self._finish(answer, context, times))
        else:
            self._answer(answer, context)
            _measure(context, times, self._monotonic())

    def _learn(self, frame: bytearray) -> RequestContext | None:
        """Who asks, and for what, from the whole header; None when the answer was to refuse it."""
        header = read_request_header(frame)
        client_part = bytes(frame[_NUMBERS.size : header.end])
        if client_part != self._client_part or len(self._contexts) >= KNOWN_REQUESTS_MAX:
            self._contexts.clear()
        self._client_part = client_part
        self._correlation_id = header.correlation_id
        try:
            schema = self._dispatcher.schema_of(header)
        except UnsupportedRequest as error:
            refusal = self._dispatcher.refuse_version(header)
            if refusal is None:
                self._hang_up(str(error))
            else:
                self._send([_LENGTH.pack(len(refusal)), refusal], len(refusal))
            return None
        context = RequestContext(
            header.api_key,
            header.api_version,
            header.client_id,
            self.listener_name,
            self.peer_host,
            schema,
            self,
            self._dispatcher.meter_of(schema),
        )
        self._contexts[header.api_key, header.api_version] = context
        return context

    def _on_complete(self, deferred: DeferredResponse) -> None:
        """Called from within an append or a commit: no failure of this connection may reach it."""
        if deferred.error is not None:
            self._blocking = None
            logger.error("Pending request from %s failed", self.peer, exc_info=deferred.error)
            self._hang_up(None)
        elif not deferred.allows_next_request:
            self._send_blocking()
        elif deferred is self._pending[0].deferred and not self._send_is_scheduled:
            # Responses that complete together are written together.
            self._send_is_scheduled = True
            asyncio.get_running_loop().call_soon(self._send_completed)

    def _send_blocking(self) -> None:
        pending, self._blocking = self._blocking, None
        assert pending is not None
        self._handling = False
        try:
            self._answer(pending.deferred.result, pending.context)
        except Exception:
            logger.exception("Cannot encode the %s response to %s", pending.context.schema.api_name, self.peer)
            self._hang_up(None)
            return
        self.last_active = now = self._monotonic()
        _measure(pending.context, pending.times, now)
        # Not now: the append that completed the response must not handle this client's next request.
        if self._waiting or self._reading_paused or self._is_ending:
            self._take_turns()

    async def _finish(self, answer: Any, context: RequestContext, times: _Times | None) -> None:
        try:
            response = await answer
        except asyncio.CancelledError:
            return
        except SerialError as error:
            self._hang_up(_unreadable(error))
            return
        except Exception:
            logger.exception(
                "%s request version %d from %s failed", context.schema.api_name, context.version, self.peer
            )
            self._hang_up(None)
            return
        self._task = self._awaited = None
        self._handling = False
        self.last_active = now = self._monotonic()
        self._answer(response, context)
        _measure(context, times, now)
        self._work_off()

    def _send_completed(self) -> None:
        """Writes the pending responses that are complete, up to the first that is not."""
        self._send_is_scheduled = False
        parts: list[bytes] = []
        now = self._monotonic()
        while self._pending and self._pending[0].deferred.is_done and self._pending[0].deferred.error is None:
            pending = self._pending.popleft()
            body = _body(pending.deferred.result, pending.context)
            parts += (_head(pending.context, pending.correlation_id, sum(map(len, body))), *body)
            _measure(pending.context, pending.times, now)
        if parts:
            self.last_active = now
            self._send(parts, 0)
        self._work_off()

    def _answer(self, response: Any, context: RequestContext) -> None:
        if response is None:
            return
        if response is CLOSE_CONNECTION:
            self._hang_up("a Produce request with acks=0 failed")
        elif self._pending:
            completed = DeferredResponse.completed(response)
            self._pending.append(_PendingResponse(context, self._correlation_id, completed))
        else:
            parts = _body(response, context)
            size = sum(map(len, parts))
            self._send([_head(context, self._correlation_id, size), *parts], size)

    def _send(self, parts: list[bytes], size: int) -> None:
        """Sends an answer of that size, and what was held back before it; or holds it back as well."""
        held_back = self._held_back
        if held_back is not None:
            if len(held_back) < HELD_BACK_PARTS_MAX and size < HELD_BACK_BYTES_MAX and not self._handling:
                held_back += parts
                return
            parts = [*held_back, *parts]
            held_back.clear()
        transport = self._transport
        if transport is None:
            return
        if size < JOINED_BYTES_MAX:
            transport.write(b"".join(parts))
        else:
            transport.writelines(parts)

    def _hang_up(self, reason: str | None) -> None:
        """Closes the connection after the pending responses. `reason` is logged; None: the log has it already."""
        if self._transport is not None:
            if reason is not None:
                logger.info("Closing connection from %s: %s", self.peer, reason)
            self._forget_waiting()
            held_back, self._held_back = self._held_back, None
            if held_back:
                self._send(held_back, 0)
                held_back.clear()
            self.close()


def _measure(context: RequestContext, times: _Times | None, answered: float) -> None:
    if times is not None:
        context.meter.requests.measure(*times, answered)


def _body(response: Any, context: RequestContext) -> list[bytes]:
    kind = response.__class__
    if kind is list:
        parts: list[bytes] = response
        return parts
    if kind is bytes:
        return [response]
    if errors := error_codes(response):
        context.meter.count_errors(errors)
    return [context.schema.write(response)]


def _head(context: RequestContext, correlation_id: int, size: int) -> bytes:
    if context.schema.response_header_flexible:
        return _FLEXIBLE_HEAD.pack(size + 5, correlation_id, 0)
    return _HEAD.pack(size + 4, correlation_id)


def _unreadable(error: SerialError) -> str:
    return f"cannot decode the request ({error or type(error).__name__})"

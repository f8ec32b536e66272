"""One client connection: frames in, one handler call after the other, responses out in the same order.

Kafka's rule holds: a connection handles its next request only after the response to the previous one. Produce and
OffsetCommit are the exception: the broker appends further requests of the same API while earlier ones wait for
replicas, so that followers fetch larger batches. Other requests wait in a bounded queue; when it is full, the
connection stops reading the socket. A response whose records are in files is sent in chunks, and then the next request
is handled.
A connection handles a few requests at a time, then lets other connections take their turn.
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
from odradek.base.errors import ErrorCode
from odradek.base.principal import ANONYMOUS, Principal
from odradek.core.quotas.node_quotas import ClientUsage, NodeQuotas
from odradek.core.security.access import UNRESTRICTED, Access, AuthorizerNotReady
from odradek.instruments.requests import RequestMeter
from odradek.server.connecting import HostPort
from odradek.server.connection_authentication import ConnectionAuthentication
from odradek.server.context import CLOSE_CONNECTION, RequestContext
from odradek.server.log_limits import LimitedMessages
from odradek.server.response_sender import ResponseSender, Streaming
from odradek.server.security import TLS_MECHANISM, UNSECURED_LISTENER, AuthenticationFailure, ListenerSecurity
from odradek.server.throttling import Throttled
from odradek.wire.apis import ApiKey
from odradek.wire.error_codes import error_codes
from odradek.wire.framing import FrameReader
from odradek.wire.headers import RequestHeader, read_request_header, skip_tagged_fields
from odradek.wire.schemas import Schema, SerialError
from odradek.wire.streamed_response import StreamedResponse

logger = logging.getLogger(__name__)
logger.addFilter(LimitedMessages())

# Queued requests. A pipelining producer has five in flight.
WAITING_FRAMES_MAX: Final = 16
# Their bytes, including an incomplete frame.
WAITING_BYTES_MAX: Final = 1 << 20
# Requests that were executed, and whose responses are pending.
PENDING_RESPONSES_MAX: Final = 16
HANDLED_IN_A_ROW_MAX: Final = 16
# Requests that a client sent before it closed the connection are handled within this time.
LAST_REQUESTS_SECONDS_MAX: Final = 10.0
# Two responses of header and body are buffered and written with the third. Buffering more would let the client wait for
# work.
BUFFERED_PARTS_MAX: Final = 4
# A response of this size or more is written at once, after the buffered ones.
BUFFERED_BYTES_MAX: Final = 16_384
# Below this, joining the parts costs less than writing them one by one.
JOINED_BYTES_MAX: Final = 65_536
_LENGTH: Final = struct.Struct(">i")
# Request contexts cached per connection, by API and version. Most clients use three or four.
CONTEXTS_MAX: Final = 16
# API key, version and correlation ID; the client ID follows.
_NUMBERS: Final = struct.Struct(">hhi")
# Of a response: length and correlation ID; in flexible versions an empty section of tagged fields follows.
_HEAD: Final = struct.Struct(">ii")
_FLEXIBLE_HEAD: Final = struct.Struct(">iib")
# An internal error closes one connection only.
FAILED: Final = "Connection from %s failed"


class Dispatcher(Protocol):
    """Finds the handler of a request and calls it."""

    def schema_of(self, header: RequestHeader) -> Schema:
        """Raises UnsupportedRequest for an API or version that this listener does not serve."""

    def meter_of(self, messages: Schema) -> RequestMeter:
        """Counts the requests of one connection to this version."""

    def access_of(self, principal: Principal, host: str) -> Access:
        """What the principal may do from this IP address."""

    @property
    def client_quotas(self) -> NodeQuotas: ...

    def dispatch(self, frame: bytearray, body: int, context: RequestContext) -> Any: ...

    def dispatch_limited(self, frame: bytearray, body: int, context: RequestContext) -> Any:
        """As `dispatch`, with a `Throttled` response if the client exceeds a quota."""

    def refuse_version(self, header: RequestHeader) -> bytes | None:
        """The response to an unsupported version, where Kafka has one; None: the connection is closed."""


class UnsupportedRequest(Exception):
    """An API or version that this listener does not serve."""


# Of a timed request: its arrival, the start of its handler, and the end of the handler's local work.
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
    REJECTED = 3


class ConnectionLimits(Protocol):
    def admit(self, connection: "ClientConnection") -> Admission: ...

    def release(self, connection: "ClientConnection") -> None:
        """The connection is closed, whether or not it was admitted."""

    def monotonic(self) -> float:
        """The clock of `ClientConnection.last_active`."""


class ClientConnection(asyncio.Protocol):
    def __init__(
        self,
        dispatcher: Dispatcher,
        limits: ConnectionLimits,
        listener_name: str,
        request_bytes_max: int,
        streaming: Streaming,
        *,
        on_connect: Callable[[str], None] | None = None,
        security: ListenerSecurity = UNSECURED_LISTENER,
    ) -> None:
        self._streaming: Final = streaming
        self._security: Final = security
        # None until the first streamed response.
        self._sender: ResponseSender | None = None
        self._on_connect: Final = on_connect
        self._dispatcher: Final = dispatcher
        self._quotas: Final = dispatcher.client_quotas
        self._limits: Final = limits
        self._monotonic: Final = limits.monotonic
        self.last_active = limits.monotonic()
        """When bytes last arrived, or a response was written."""
        self.listener_name: Final = listener_name
        self._reader: Final = FrameReader(request_bytes_max)
        self._waiting: Final[deque[bytearray]] = deque()
        # The arrival time of each.
        self._arrivals: Final[deque[float]] = deque()
        self._waiting_bytes = 0
        self._waiting_bytes_max = WAITING_BYTES_MAX
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        # What the task awaits.
        self._awaited: Any = None
        # The response that the next request waits for.
        self._blocking: _PendingResponse | None = None
        # Responses that the next request to the same API does not wait for, in the order of their requests.
        self._pending: Final[deque[_PendingResponse]] = deque()
        # The key of that API, as bytes.
        self._pending_api: bytes | bytearray = b""
        self._send_is_scheduled = False
        self._is_admitted = False
        self._handling = False
        # The client ID with its length, which all requests of a client repeat: the rest of the header has a fixed size.
        self._client_part = b""
        self._contexts: Final[dict[tuple[int, int], RequestContext]] = {}
        self._correlation_id = 0
        # Responses to be written with those of the next requests; None: responses are written at once.
        self._buffered: list[bytes] | None = None
        self._turn_is_due = False
        self._write_blocked = False
        self._reading_paused = False
        # The client exceeds a quota: its next request is handled when this is over.
        self._unmute_timer: asyncio.TimerHandle | None = None
        self._unmute_at = 0.0
        # No more requests are read; those received are handled first.
        self._is_ending = False
        self._end_reason: str | None = None
        self._end_timer: asyncio.TimerHandle | None = None
        self._client_has_closed = False
        self.was_closed_here = False
        """Whether this node closed the connection, and not the client."""
        self._is_closed = False
        # A dict, to keep each once and in order.
        self._close_listeners: dict[Callable[[], None], None] | None = None
        self.peer_host = ""
        self._peer_port = 0
        self.principal: Principal = ANONYMOUS
        self._access: Access = UNRESTRICTED
        self._request_bytes_max: Final = request_bytes_max
        sasl = security.sasl
        # Until the connection is closed: the two refer to each other.
        self._authentication = None if sasl is None else ConnectionAuthentication(sasl, self)

    @property
    def peer(self) -> str:
        """The client's address, for log messages."""
        return str(HostPort(self.peer_host, self._peer_port))

    @property
    def correlation_id(self) -> int:
        """Of the request that was handled last."""
        return self._correlation_id

    @property
    def is_admitted(self) -> bool:
        """Whether the limits on connections had room for it."""
        return self._is_admitted

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "pause_reading")
        self._transport = transport  # type: ignore[assignment]
        peer = transport.get_extra_info("peername")
        if peer:
            self.peer_host, self._peer_port = peer[:2]
        logger.debug("Connection from %s opened on listener %s", self.peer, self.listener_name)
        admission = self._limits.admit(self)
        if admission is Admission.REJECTED:
            self.close()
        elif admission is Admission.WAITING:
            # Not at once: uvloop starts reading after this call.
            asyncio.get_running_loop().call_soon(self._pause_reading)
        else:
            self.on_admitted()

    def on_admitted(self) -> None:
        """There is room for this connection: its requests are handled from now on."""
        self._is_admitted = True
        self._access = self._dispatcher.access_of(self.principal, self.peer_host)
        self.last_active = self._monotonic()
        if self._on_connect is not None:
            self._on_connect(self.peer_host)
        if self._authentication is not None:
            self._authentication.start()
        self._handle_waiting()

    def on_secured(self, certificate: bytes | None) -> None:
        """The TLS handshake is complete: on a listener of protocol SSL, the client is authenticated."""
        if self._security.sasl is not None:
            return
        try:
            self.principal = self._security.principal_of_certificate(certificate)
        except ValueError as error:
            logger.warning("Closing connection from %s: %s", self.peer, error)
            self._security.on_failure(AuthenticationFailure(self.listener_name, self.peer, TLS_MECHANISM, str(error)))
            self.close()
            return
        self._access = self._dispatcher.access_of(self.principal, self.peer_host)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._drop_waiting()
        # They refer to this connection: only the garbage collector would free the cycle.
        self._contexts.clear()
        if self._task is not None:
            self._task.cancel()
            if iscoroutine(self._awaited) and getcoroutinestate(self._awaited) == CORO_CREATED:
                # Its task never ran: Python would warn about a coroutine that was never awaited.
                self._awaited.close()
        if self._blocking is not None:
            self._blocking.deferred.cancel()
        for pending in self._pending:
            pending.deferred.cancel()
        self._pending.clear()
        for timer in (self._end_timer, self._unmute_timer):
            if timer is not None:
                timer.cancel()
        if self._sender is not None:
            self._sender.stop()
            self._sender = None
        if self._authentication is not None:
            self._authentication.stop()
            self._authentication = None
        self._limits.release(self)
        self._is_closed = True
        logger.debug("Connection from %s closed by %s", self.peer, "this node" if self.was_closed_here else "client")
        listeners, self._close_listeners = self._close_listeners, None
        for listener in listeners or ():
            listener()

    def on_close(self, listener: Callable[[], None]) -> None:
        if self._is_closed:
            asyncio.get_running_loop().call_soon(listener)
        elif self._close_listeners is None:
            self._close_listeners = {listener: None}
        else:
            self._close_listeners[listener] = None

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
            self._handle_waiting()
        if self._reader.failure is not None:
            self._on_invalid_frame(self._reader.failure)
        elif self._is_full:
            self._pause_reading()

    def eof_received(self) -> bool:
        """Keeps the connection open while requests are pending: a producer with acks=0 may close at once."""
        self._client_has_closed = True
        if not self._is_busy and not self._pending:
            return False
        self._end_after_last_request(None)
        return self._transport is not None

    def pause_writing(self) -> None:
        self._write_blocked = True

    def resume_writing(self) -> None:
        self._write_blocked = False
        self.last_active = self._monotonic()
        if self._sender is not None and self._sender.is_sending:
            self._sender.on_drained()
        else:
            self._handle_waiting()

    def close(self) -> None:
        if self._transport is not None:
            self.was_closed_here = not self._client_has_closed
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self.was_closed_here = not self._client_has_closed
            self._transport.abort()

    # requests

    @property
    def _is_busy(self) -> bool:
        """Whether a frame that arrives now must wait."""
        return (
            self._handling
            or self._write_blocked
            or bool(self._waiting)
            or not self._is_admitted
            or self._unmute_timer is not None
        )

    def _must_wait(self, frame: bytearray) -> bool:
        """Whether this request waits for the pending responses: it does unless it is for the same API."""
        return len(self._pending) >= PENDING_RESPONSES_MAX or not frame.startswith(self._pending_api)

    @property
    def _is_full(self) -> bool:
        return (
            len(self._waiting) >= WAITING_FRAMES_MAX
            or self._waiting_bytes + self._reader.held_bytes >= self._waiting_bytes_max
        ) and self._is_busy

    def _pause_reading(self) -> None:
        if not self._reading_paused and self._transport is not None:
            self._reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._reading_paused and self._transport is not None:
            self._reading_paused = False
            self._transport.resume_reading()

    def _mute(self, delay_ms: int) -> None:
        """Neither reads nor handles further requests for this time. Other connections do not wait."""
        until = self._monotonic() + delay_ms / 1000
        if self._transport is None or until <= self._unmute_at:
            return
        self._unmute_at = until
        if self._unmute_timer is not None:
            self._unmute_timer.cancel()
        self._unmute_timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._unmute)
        self._pause_reading()

    def _unmute(self) -> None:
        self._unmute_timer = None
        self._next_turn()

    def _handle_waiting(self) -> None:
        waiting = self._waiting
        handled = 0
        if not self._is_admitted or self._unmute_timer is not None:
            return
        # Responses to requests that arrived together are written a few at a time, which saves system calls.
        buffered: list[bytes] = []
        self._buffered = buffered
        try:
            while waiting and not self._handling and not self._write_blocked and self._transport is not None:
                if self._unmute_timer is not None or (self._pending and self._must_wait(waiting[0])):
                    break
                if handled == HANDLED_IN_A_ROW_MAX:
                    self._schedule_next_turn()
                    return
                handled += 1
                frame = waiting.popleft()
                self._waiting_bytes -= len(frame)
                self._handle(frame, self._arrivals.popleft(), True)
        finally:
            self._buffered = None
            if buffered:
                self._send(buffered, 0)
        if self._transport is None:
            return
        if waiting and self._blocking is not None:
            self._blocking.deferred.on_next_request()
        if self._is_ending:
            if not self._is_busy and not self._pending:
                self.close_after_responses(self._end_reason)
        elif self._reading_paused and not self._is_full and self._unmute_timer is None:
            self._resume_reading()

    def _schedule_next_turn(self) -> None:
        if not self._turn_is_due:
            self._turn_is_due = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._turn_is_due = False
        try:
            self._handle_waiting()
        except Exception:
            logger.exception(FAILED, self.peer)
            self.abort()

    def _end_after_last_request(self, reason: str | None) -> None:
        if not self._is_ending:
            self._is_ending = True
            self._end_reason = reason
            self._pause_reading()
            self._end_timer = asyncio.get_running_loop().call_later(LAST_REQUESTS_SECONDS_MAX, self.abort)
        self._handle_waiting()

    def _drop_waiting(self) -> None:
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
                if self._authentication is not None and self._authentication.consumes(frame):
                    return
                context = self._add_context(frame)
                if context is None:
                    return
            body = _NUMBERS.size + len(self._client_part)
            if context.schema.flexible:
                # Headers rarely have tagged fields.
                body = body + 1 if frame.startswith(b"\0", body) else skip_tagged_fields(frame, body)
            requests = context.meter.requests
            requests.left = left = requests.left - 1
            if not left:
                requests.restart_stride()
                started = self._monotonic() if has_waited else arrived
            if self._quotas.is_enabled:
                response = self._dispatcher.dispatch_limited(frame, body, context)
            else:
                response = self._dispatcher.dispatch(frame, body, context)
        except SerialError as error:
            self.close_after_responses(_undecodable(error))
            return
        except AuthorizerNotReady as error:
            self.close_after_responses(str(error))
            return
        except Exception:
            # An internal error closes this connection only.
            logger.exception("Request with header %s from %s failed", frame[:8].hex(), self.peer)
            self.close_after_responses(None)
            return
        kind = response.__class__
        if kind is bytes or kind is list:
            # Frequent responses are encoded by their handlers.
            self._respond(response, context)
            if started is not None:
                now = self._monotonic()
                context.meter.requests.measure(arrived, started, now, now)
            return
        times = None if started is None else (arrived, started, self._monotonic())
        if isinstance(response, DeferredResponse):
            pending = _PendingResponse(context, self._correlation_id, response, times)
            if response.allows_next_request:
                self._pending_api = frame[:2]
                self._pending.append(pending)
            else:
                self._handling = True
                self._blocking = pending
            response.on_complete(self._on_complete)
        elif isawaitable(response):
            self._handling = True
            self._awaited = response
            self._task = asyncio.ensure_future(self._await_response(response, context, times))
        else:
            self._respond(response, context)
            _measure(context, times, self._monotonic())

    def _add_context(self, frame: bytearray) -> RequestContext | None:
        """Decodes the whole header and caches the context; None if the request was rejected."""
        header = read_request_header(frame)
        client_part = bytes(frame[_NUMBERS.size : header.end])
        if client_part != self._client_part or len(self._contexts) >= CONTEXTS_MAX:
            self._contexts.clear()
        self._client_part = client_part
        self._correlation_id = header.correlation_id
        try:
            schema = self._dispatcher.schema_of(header)
        except UnsupportedRequest as error:
            rejection = self._dispatcher.refuse_version(header)
            if rejection is None:
                self.close_after_responses(str(error))
            else:
                self.send_frame(rejection)
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
            self.principal,
            self._access,
            self._security.protocol,
            usage=ClientUsage(self._quotas, self.principal.name, header.client_id),
        )
        # A client may authenticate again with SaslHandshake.
        if header.api_key != ApiKey.SASL_HANDSHAKE:
            self._contexts[header.api_key, header.api_version] = context
        return context

    # Authentication

    def _on_invalid_frame(self, reason: str) -> None:
        authentication = self._authentication
        if authentication is None or authentication.is_authenticated:
            self._end_after_last_request(reason)
        else:
            self._pause_reading()
            authentication.on_oversized()

    def send_frame(self, data: bytes) -> None:
        self._send([_LENGTH.pack(len(data)), data], len(data))

    def respond_to_versions(self, frame: bytearray) -> bool:
        context = self._add_context(frame)
        if context is None:
            return False
        body = _NUMBERS.size + len(self._client_part)
        if context.schema.flexible:
            body = skip_tagged_fields(frame, body)
        # The next requests must pass the authentication.
        self.forget_contexts()
        response = self._dispatcher.dispatch(frame, body, context)
        self._respond(response, context)
        return response.error_code is ErrorCode.none

    def set_busy(self, is_busy: bool) -> None:
        self._handling = is_busy
        if is_busy:
            self._pause_reading()
        else:
            self._schedule_next_turn()

    def set_request_bytes_max(self, limit: int | None) -> None:
        self._reader.limit = self._request_bytes_max if limit is None else limit
        # A client that is not authenticated waits for each response.
        self._waiting_bytes_max = WAITING_BYTES_MAX if limit is None else 0

    def set_principal(self, principal: Principal) -> None:
        self.principal = principal
        self._access = self._dispatcher.access_of(principal, self.peer_host)

    def forget_contexts(self) -> None:
        self._contexts.clear()
        self._client_part = b""

    def _on_complete(self, deferred: DeferredResponse) -> None:
        """Called from within an append or a commit: no failure of this connection may reach it."""
        if deferred.error is not None:
            self._blocking = None
            logger.error("Pending request from %s failed", self.peer, exc_info=deferred.error)
            self.close_after_responses(None)
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
            self._respond(pending.deferred.result, pending.context)
        except Exception:
            logger.exception("Cannot encode the %s response to %s", pending.context.schema.api_name, self.peer)
            self.close_after_responses(None)
            return
        self.last_active = now = self._monotonic()
        _measure(pending.context, pending.times, now)
        # Not now: the append that completed the response must not handle this client's next request.
        if self._waiting or self._reading_paused or self._is_ending:
            self._schedule_next_turn()

    async def _await_response(self, awaited: Any, context: RequestContext, times: _Times | None) -> None:
        try:
            response = await awaited
        except asyncio.CancelledError:
            return
        except SerialError as error:
            self.close_after_responses(_undecodable(error))
            return
        except AuthorizerNotReady as error:
            self.close_after_responses(str(error))
            return
        except Exception:
            logger.exception(
                "%s request version %d from %s failed", context.schema.api_name, context.version, self.peer
            )
            self.close_after_responses(None)
            return
        self._task = self._awaited = None
        self._handling = False
        self.last_active = now = self._monotonic()
        try:
            self._respond(response, context)
            _measure(context, times, now)
            self._handle_waiting()
        except Exception:
            logger.exception(FAILED, self.peer)
            self.abort()

    def _send_completed(self) -> None:
        """Writes the pending responses that are complete, up to the first that is not."""
        self._send_is_scheduled = False
        parts: list[bytes] = []
        now = self._monotonic()
        try:
            while self._pending and self._pending[0].deferred.is_done and self._pending[0].deferred.error is None:
                pending = self._pending.popleft()
                result = pending.deferred.result
                if result.__class__ is Throttled:
                    self._mute(result.delay_ms)
                    result = result.response
                    if result is None:
                        continue
                if result.__class__ is bytes:
                    parts += (_head(pending.context, pending.correlation_id, len(result)), result)
                else:
                    body = _body(result, pending.context)
                    parts += (_head(pending.context, pending.correlation_id, sum(map(len, body))), *body)
                _measure(pending.context, pending.times, now)
            if parts:
                self.last_active = now
                self._send(parts, 0)
            self._handle_waiting()
        except Exception:
            logger.exception(FAILED, self.peer)
            self.abort()

    def _respond(self, response: Any, context: RequestContext) -> None:
        if response.__class__ is Throttled:
            self._mute(response.delay_ms)
            response = response.response
        if response is None:
            return
        if response is CLOSE_CONNECTION:
            self.close_after_responses("a Produce request with acks=0 failed")
        elif self._pending:
            completed = DeferredResponse.from_result(response)
            self._pending.append(_PendingResponse(context, self._correlation_id, completed))
        elif response.__class__ is StreamedResponse:
            self._stream(response, context)
        else:
            parts = _body(response, context)
            size = sum(map(len, parts))
            self._send([_head(context, self._correlation_id, size), *parts], size)

    def _stream(self, response: StreamedResponse, context: RequestContext) -> None:
        """Sends a response in chunks. The next request is handled when the last one has left."""
        transport = self._transport
        if transport is None:
            return
        if self._buffered:
            transport.write(b"".join(self._buffered))
            self._buffered.clear()
        if self._sender is None:
            self._sender = ResponseSender(
                transport,
                self._streaming,
                self._monotonic,
                on_sent=self._on_streamed,
                on_failure=self._on_stream_failure,
            )
        self._handling = True
        self._sender.send([_head(context, self._correlation_id, response.size), *response.parts])

    def _on_streamed(self) -> None:
        self._handling = False
        self.last_active = self._monotonic()
        self._schedule_next_turn()

    def _on_stream_failure(self, reason: str) -> None:
        """The client waits for bytes that cannot follow."""
        logger.info("Closing connection from %s: cannot send the rest of a response: %s", self.peer, reason)
        self.abort()

    def _send(self, parts: list[bytes], size: int) -> None:
        """Writes a response of that size after the buffered ones, or buffers it too."""
        buffered = self._buffered
        if buffered is not None:
            if len(buffered) < BUFFERED_PARTS_MAX and size < BUFFERED_BYTES_MAX and not self._handling:
                buffered += parts
                return
            parts = [*buffered, *parts]
            buffered.clear()
        transport = self._transport
        if transport is None:
            return
        if size < JOINED_BYTES_MAX:
            transport.write(b"".join(parts))
        else:
            transport.writelines(parts)

    def close_after_responses(self, reason: str | None) -> None:
        """Closes the connection after the responses written so far. `reason` is logged unless it is None."""
        if self._transport is not None:
            if reason is not None:
                logger.info("Closing connection from %s: %s", self.peer, reason)
            self._drop_waiting()
            buffered, self._buffered = self._buffered, None
            if buffered:
                self._send(buffered, 0)
                buffered.clear()
            self.close()


def _measure(context: RequestContext, times: _Times | None, responded: float) -> None:
    if times is not None:
        context.meter.requests.measure(*times, responded)


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


def _undecodable(error: SerialError) -> str:
    return f"cannot decode the request ({error or type(error).__name__})"

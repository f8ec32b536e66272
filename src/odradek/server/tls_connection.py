"""TLS between a socket and the protocol of a connection: a transport for the one above, a protocol for the loop below.

The state of TLS is OpenSSL's, in memory; this module moves bytes in and out of it in small slices, because OpenSSL's
buffers keep their largest size. The protocol above exists from the moment the socket is open, so that limits on
connections cover handshakes too, but receives bytes only after the handshake. A server has no state of TLS before the
first byte arrives.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from odradek.base.ports import Executor, Pool
from odradek.server.log_limits import LimitedMessages
from odradek.server.tls_errors import describe_tls_failure

logger = logging.getLogger(__name__)
logger.addFilter(LimitedMessages())

HANDSHAKE_SECONDS_MAX: Final = 10.0
# A chain of certificates may have 100 KB, which is OpenSSL's own limit.
HANDSHAKE_BYTES_MAX: Final = 128 << 10
# OpenSSL reserves the announced size of a ClientHello at once. Those of clients have a few hundred bytes.
CLIENT_HELLO_BYTES_MAX: Final = 16 << 10
RECEIVE_BUFFER_BYTES: Final = 256 << 10
# Larger objects would be new memory each time, which costs more than the decryption.
DECRYPT_BUFFER_BYTES: Final = 64 << 10
# OpenSSL gets so many bytes at a time.
SLICE_BYTES: Final = 32 << 10
# The content of the largest record.
RECORD_BYTES: Final = 16 << 10
# OpenSSL itself responds to some records. A client that does not read these responses is disconnected.
UNREAD_RESPONSE_BYTES_MAX: Final = 256 << 10

# The event loop spends at most this share of each window on handshakes.
WINDOW_SECONDS: Final = 0.01
LOOP_SHARE_MAX: Final = 0.3

# The header of a record and of the message in it.
FIRST_BYTES: Final = 9
_HANDSHAKE_RECORD: Final = 22
_NOTHING: Final = memoryview(b"")


class TlsBuffers:
    """Shared by the TLS connections of one event loop: bytes stay in these buffers only during one call."""

    def __init__(self) -> None:
        self.received: Final = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
        self.decrypted: Final = memoryview(bytearray(DECRYPT_BUFFER_BYTES))


class Handshakes:
    """Computes the handshakes of clients: a few on the event loop, which is fastest, and any more in threads."""

    def __init__(self, executor: Executor, monotonic: Callable[[], float]) -> None:
        self.buffers: Final = TlsBuffers()
        self._executor: Final = executor
        self._monotonic: Final = monotonic
        self._window_began_at = 0.0
        self._spent_seconds = 0.0

    def compute_here(self, tls: ssl.SSLObject) -> tuple[bool, Exception | None]:
        """Whether the event loop had time for this step, and the step's result."""
        now = self._monotonic()
        if now - self._window_began_at > WINDOW_SECONDS:
            self._window_began_at, self._spent_seconds = now, 0.0
        elif self._spent_seconds > WINDOW_SECONDS * LOOP_SHARE_MAX:
            return False, None
        failure = _do_handshake(tls)
        self._spent_seconds += self._monotonic() - now
        return True, failure

    async def compute_in_thread(self, tls: ssl.SSLObject) -> Exception | None:
        return await self._executor.run(partial(_do_handshake, tls), pool=Pool.HANDSHAKE)


class TlsConnection(asyncio.BufferedProtocol):
    """Base of both sides."""

    _is_server = False

    def __init__(
        self, protocol: asyncio.BaseProtocol, new_context: Callable[[], ssl.SSLContext], buffers: TlsBuffers
    ) -> None:
        self._protocol: Final = protocol
        # The bound methods of the protocol above: a connection calls one of them per request.
        self._receives_into_buffer: Final = isinstance(protocol, asyncio.BufferedProtocol)
        self._data_received: Final = getattr(protocol, "data_received", None)
        self._new_context: Final = new_context
        self._buffers: Final = buffers
        self._transport: asyncio.Transport | None = None
        self._incoming: ssl.MemoryBIO | None = None
        self._outgoing: ssl.MemoryBIO | None = None
        self._tls: ssl.SSLObject | None = None
        self._is_secured = False
        self._has_ended = False
        """Whether no more bytes are passed to the protocol above."""
        self._handshake_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._is_paused = False
        self._held: list[bytes] = []
        """Decrypted bytes for a protocol above that has paused reading."""
        self._holds_eof = False
        """Whether the end of the stream follows them."""
        self._failure: str | None = None

    # The handshake

    def _on_secured(self, tls: ssl.SSLObject) -> None:
        """The handshake is complete."""
        raise NotImplementedError

    def _on_handshake_failure(self, reason: str) -> None:
        """The connection is about to be closed."""
        raise NotImplementedError

    def _start_tls(self, server_hostname: str | None = None) -> ssl.SSLObject:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = self._new_context().wrap_bio(
            self._incoming, self._outgoing, server_side=self._is_server, server_hostname=server_hostname
        )
        return self._tls

    def _step(self) -> None:
        """Continues the handshake with the bytes that have arrived."""
        assert self._tls is not None
        self._on_step(_do_handshake(self._tls))

    def _on_step(self, failure: Exception | None) -> None:
        if self._transport is None or self._tls is None:
            return
        self._flush()
        if isinstance(failure, ssl.SSLWantReadError):
            return
        if failure is not None:
            self._fail_handshake(describe_tls_failure(failure))
            return
        self._is_secured = True
        self._cancel_deadline()
        self._on_secured(self._tls)
        if self._transport is not None:
            # Requests may have arrived together with the end of the handshake.
            self._receive(_NOTHING)

    def _fail_handshake(self, reason: str) -> None:
        self._has_ended = True
        self._cancel_deadline()
        self._on_handshake_failure(reason)
        if self._transport is not None:
            # The alert leaves before the connection is closed.
            self._transport.close()

    def _start_deadline(self) -> None:
        self._deadline = asyncio.get_running_loop().call_later(HANDSHAKE_SECONDS_MAX, self._on_deadline)

    def _on_deadline(self) -> None:
        if self._is_paused:
            # The connection waits to be admitted.
            self._start_deadline()
        elif self._transport is not None:
            self._has_ended = True
            self._on_handshake_failure(f"no handshake within {HANDSHAKE_SECONDS_MAX:g} s")
            self.abort()

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # asyncio's side: a protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "pause_reading")
        self._transport = transport  # type: ignore[assignment]
        self._start_deadline()
        self._protocol.connection_made(self)  # type: ignore[arg-type]

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._cancel_deadline()
        # OpenSSL's memory is freed now, and not when the protocol above is.
        self._tls = self._incoming = self._outgoing = None
        self._held.clear()
        if exc is None and self._failure is not None:
            exc = ConnectionError(self._failure)
        self._protocol.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffers.received

    def buffer_updated(self, nbytes: int) -> None:
        if not self._has_ended:
            self._feed(self._buffers.received[:nbytes])

    def _feed(self, data: memoryview) -> None:
        if self._is_secured:
            self._receive(data)
        else:
            self._feed_handshake(data)

    def _feed_handshake(self, data: memoryview) -> None:
        self._handshake_bytes += len(data)
        if self._handshake_bytes > HANDSHAKE_BYTES_MAX:
            self._fail_handshake(f"the handshake exceeds {HANDSHAKE_BYTES_MAX} bytes")
            return
        assert self._incoming is not None
        self._incoming.write(data)
        self._step()

    def eof_received(self) -> bool | None:
        if not self._is_secured:
            return False
        if self._has_ended:
            # After the other side's close_notify: the protocol above decides when to close.
            return self._transport is not None
        self._has_ended = True
        return self._protocol.eof_received()  # type: ignore[attr-defined,no-any-return]

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    # Decryption

    def _receive(self, data: memoryview) -> None:
        """Decrypts what has arrived, and passes it on."""
        try:
            if self._receives_into_buffer:
                self._receive_into_buffers(data)
            else:
                self._receive_data(data)
        except ssl.SSLZeroReturnError:
            self._on_close_notify()
        except ssl.SSLError as error:
            self._end(describe_tls_failure(error))
        if self._outgoing is not None and self._outgoing.pending:
            self._flush_responses()

    def _receive_data(self, data: memoryview) -> None:
        tls, incoming, decrypted = self._tls, self._incoming, self._buffers.decrypted
        assert tls is not None and incoming is not None
        filled = position = 0
        try:
            while position < len(data) or incoming.pending or tls.pending():
                if position < len(data):
                    position += incoming.write(data[position : position + SLICE_BYTES])
                with suppress(ssl.SSLWantReadError):
                    while incoming.pending or tls.pending():
                        if filled > DECRYPT_BUFFER_BYTES - RECORD_BYTES:
                            filled = self._pass_on(decrypted, filled)
                            if self._has_ended:
                                # The protocol above has closed the connection.
                                return
                        count = _read_into(tls, decrypted[filled:])
                        if not count:
                            raise ssl.SSLZeroReturnError
                        filled += count
                    continue
                if position == len(data):
                    return
        finally:
            self._pass_on(decrypted, filled)

    def _pass_on(self, decrypted: memoryview, size: int) -> int:
        """Returns 0, the number of bytes that are left in the buffer."""
        if size and not self._has_ended:
            data = bytes(decrypted[:size])
            if self._is_paused:
                self._held.append(data)
            elif self._data_received is not None:
                self._data_received(data)
        return 0

    def _receive_into_buffers(self, data: memoryview) -> None:
        protocol: Any = self._protocol
        incoming = self._incoming
        assert incoming is not None
        position = 0
        while position < len(data) or incoming.pending:
            if position < len(data):
                position += incoming.write(data[position : position + SLICE_BYTES])
            try:
                while not self._has_ended and (tls := self._tls) is not None and (incoming.pending or tls.pending()):
                    count = _read_into(tls, protocol.get_buffer(-1))
                    if not count:
                        raise ssl.SSLZeroReturnError
                    protocol.buffer_updated(count)
            except ssl.SSLWantReadError:
                if position == len(data):
                    return
            if self._has_ended:
                return

    def _flush_responses(self) -> None:
        self._flush()
        if self._transport is not None and self._transport.get_write_buffer_size() > UNREAD_RESPONSE_BYTES_MAX:
            self._end("the other side does not read")

    def _on_close_notify(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            if self._held:
                self._holds_eof = True
            else:
                self._pass_on_eof()

    def _pass_on_eof(self) -> None:
        if not self._protocol.eof_received():  # type: ignore[attr-defined]
            self.close()

    def _end(self, reason: str) -> None:
        """The other side broke the protocol."""
        self._failure = reason
        # A peer reports its own failures, once.
        level = logging.INFO if self._is_server else logging.DEBUG
        logger.log(level, "Closing TLS connection: peer=%s, reason=%s", self._peer(), reason)
        self._flush()
        self.abort()

    def _peer(self) -> str:
        peer = None if self._transport is None else self._transport.get_extra_info("peername")
        return f"{peer[0]}:{peer[1]}" if peer else "?"

    def _flush(self) -> None:
        if self._outgoing is not None and self._outgoing.pending and self._transport is not None:
            self._transport.write(self._outgoing.read())

    # The side of the protocol above: a transport

    def write(self, data: Any) -> None:
        tls, outgoing, transport = self._tls, self._outgoing, self._transport
        if tls is None or outgoing is None or transport is None or transport.is_closing():
            return
        try:
            size = len(data)
            if size <= RECORD_BYTES:
                tls.write(data)
                transport.write(outgoing.read())
                return
            view = memoryview(data)
            position = 0
            records: list[bytes] = []
            while position < size:
                position += tls.write(view[position : position + RECORD_BYTES])
                records.append(outgoing.read())
            transport.writelines(records)
        except ssl.SSLError as error:
            self._end(describe_tls_failure(error))

    def writelines(self, parts: Iterable[Any]) -> None:
        self.write(b"".join(parts))

    def close(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._has_ended = True
        if self._is_secured and self._tls is not None:
            # It waits for the other side's close_notify, which is of no interest.
            with suppress(ssl.SSLError):
                self._tls.unwrap()
            self._flush()
        transport.close()

    def abort(self) -> None:
        self._has_ended = True
        if self._transport is not None:
            self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def pause_reading(self) -> None:
        self._is_paused = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        # Not now: the protocol above may be handling a request.
        asyncio.get_running_loop().call_soon(self._continue_reading)

    def _continue_reading(self) -> None:
        """Passes on what is held, then reads on. Called by the event loop: a failure closes this connection only."""
        try:
            self._pass_on_held()
            if self._transport is not None and not self._is_paused and not self._transport.is_closing():
                self._resume_transport()
        except Exception:
            logger.exception("TLS connection failed: peer=%s", self._peer())
            self.abort()

    def _pass_on_held(self) -> None:
        while self._held and not self._is_paused and self._transport is not None:
            data = self._held.pop(0)
            if self._data_received is not None:
                self._data_received(data)
        if self._holds_eof and not self._held and not self._is_paused and self._transport is not None:
            self._holds_eof = False
            self._pass_on_eof()

    def _resume_transport(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default if self._transport is None else self._transport.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if self._transport is not None:
            self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return (0, 0) if self._transport is None else self._transport.get_write_buffer_limits()

    def get_write_buffer_size(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()


class ServerTls(TlsConnection):
    """A listener's side."""

    _is_server = True

    def __init__(
        self,
        protocol: asyncio.BaseProtocol,
        new_context: Callable[[], ssl.SSLContext],
        handshakes: Handshakes,
        *,
        on_secured: Callable[[bytes | None], None],
        listener_name: str,
        is_admitted: Callable[[], bool] = lambda: True,
        on_failure: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """`on_secured` receives the client's certificate, if it has one.

        No handshake starts before the connection is admitted; until then, the protocol above pauses reading.
        """
        super().__init__(protocol, new_context, handshakes.buffers)
        self._handshakes: Final = handshakes
        self._notify_secured: Final = on_secured
        self._name: Final = listener_name
        self._computing: asyncio.Task[Exception | None] | None = None
        self._is_admitted: Final = is_admitted
        self._notify_failure: Final = on_failure
        self._first = b""
        # What arrived while a thread computed, or before the connection was admitted: at most the bytes of one call,
        # since reading is paused.
        self._arrived: list[bytes] = []

    def _on_secured(self, tls: ssl.SSLObject) -> None:
        self._notify_secured(tls.getpeercert(binary_form=True))

    def _on_handshake_failure(self, reason: str) -> None:
        logger.info("TLS handshake failed: client=%s, listener=%s, reason=%s", self._peer(), self._name, reason)
        self._notify_failure(reason)

    def _feed_handshake(self, data: memoryview) -> None:
        if self._computing is not None or not self._is_admitted():
            self._arrived.append(bytes(data))
            return
        if self._tls is None:
            self._first += data
            if (problem := problem_of_first_bytes(self._first)) is not None:
                self._fail_handshake(problem)
                return
            if len(self._first) < FIRST_BYTES:
                return
            self._start_tls()
            data, self._first = memoryview(self._first), b""
        super()._feed_handshake(data)

    def _step(self) -> None:
        assert self._transport is not None and self._tls is not None
        is_computed, failure = self._handshakes.compute_here(self._tls)
        if is_computed:
            self._on_step(failure)
            return
        self._transport.pause_reading()
        self._computing = task = asyncio.ensure_future(self._handshakes.compute_in_thread(self._tls))
        task.add_done_callback(self._on_computed)

    def _on_computed(self, task: "asyncio.Task[Exception | None]") -> None:
        self._computing = None
        if task.cancelled() or self._transport is None:
            return
        try:
            self._on_step(task.result())
        except Exception:
            # Called by the event loop: an internal error closes this connection only.
            logger.exception("TLS handshake failed: client=%s, listener=%s", self._peer(), self._name)
            self.abort()
            return
        self._continue_reading()

    def _resume_transport(self) -> None:
        arrived, self._arrived = self._arrived, []
        for data in arrived:
            if not self._has_ended and self._transport is not None:
                self._feed(memoryview(data))
        if self._computing is None and not self._is_paused:
            super()._resume_transport()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_secured and not self._has_ended:
            # Probes of a port send nothing.
            level = logging.INFO if self._handshake_bytes or self._first else logging.DEBUG
            logger.log(level, "Closed by the client before the end of its TLS handshake: listener=%s", self._name)
        super().connection_lost(exc)


class ClientTls(TlsConnection):
    """The side of a connection to another node."""

    def __init__(
        self,
        protocol: asyncio.BaseProtocol,
        new_context: Callable[[], ssl.SSLContext],
        buffers: TlsBuffers,
        server_hostname: str,
    ) -> None:
        super().__init__(protocol, new_context, buffers)
        self._server_hostname: Final = server_hostname
        self.handshake: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()
        """Completes with the handshake. Fails with TlsFailed or ConnectionResetError."""
        self.handshake.add_done_callback(lambda done: done.cancelled() or done.exception())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        try:
            self._start_tls(self._server_hostname)
        except ValueError as error:
            self._fail_handshake(f"invalid host name {self._server_hostname!r} ({error})")
            return
        self._step()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.handshake.done():
            self.handshake.set_exception(ConnectionResetError("the node closed the connection during the handshake"))
        super().connection_lost(exc)

    def _on_secured(self, tls: ssl.SSLObject) -> None:
        if not self.handshake.done():
            self.handshake.set_result(None)

    def _on_handshake_failure(self, reason: str) -> None:
        if not self.handshake.done():
            self.handshake.set_exception(TlsFailed(reason))


class TlsFailed(Exception):
    """The handshake failed; the message says why."""


def _read_into(tls: ssl.SSLObject, buffer: memoryview) -> int:
    """Decrypts at most one record."""
    read: Any = tls.read
    return int(read(RECORD_BYTES, buffer))


def _do_handshake(tls: ssl.SSLObject) -> Exception | None:
    try:
        tls.do_handshake()
    except (ssl.SSLError, OSError, ValueError) as error:
        return error.with_traceback(None)
    return None


def problem_of_first_bytes(data: bytes) -> str | None:
    """Why these cannot be the first bytes of a client, before OpenSSL reserves memory for them."""
    if data[0] != _HANDSHAKE_RECORD:
        return "the client does not speak TLS"
    if len(data) >= FIRST_BYTES and int.from_bytes(data[6:FIRST_BYTES], "big") > CLIENT_HELLO_BYTES_MAX:
        return f"the ClientHello exceeds {CLIENT_HELLO_BYTES_MAX} bytes"
    return None

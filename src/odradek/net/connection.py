"""One client's connection: frames in, handlers called one after the other, answers out in the same order.

Kafka's rule holds: the next request of a connection is taken up only when the one before it was answered. What the
client sends meanwhile waits here; past a bound the socket is no longer read, so a fast sender pays with its own time.
"""

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Callable
from inspect import isawaitable
from typing import Any, Final, Protocol

from odradek.handlers.context import CLOSE_CONNECTION, RequestContext
from odradek.protocol.framing import FrameReader, InvalidFrame
from odradek.protocol.headers import (
    InvalidHeader,
    RequestHeader,
    read_request_header,
    response_header,
    skip_tagged_fields,
)
from odradek.protocol.schemas import Schema, SerialError

logger = logging.getLogger(__name__)

# Requests that arrived while one is being handled. Five in flight is what a pipelining producer uses.
WAITING_FRAMES_MAX: Final = 16
_LENGTH: Final = struct.Struct(">i")


class Dispatcher(Protocol):
    """Finds the handler of a request and calls it."""

    def schema_of(self, header: RequestHeader) -> Schema:
        """Raises UnsupportedRequest for what this listener does not serve."""

    def dispatch(self, frame: bytearray, body: int, context: RequestContext) -> Any: ...

    def refuse_version(self, header: RequestHeader) -> bytes | None:
        """A whole response frame for an unsupported version, where Kafka gives one; else the connection ends."""


class UnsupportedRequest(Exception):
    """An API or version that this listener does not serve."""


class ConnectionLimits(Protocol):
    def admit(self, connection: "ClientConnection", host: str) -> bool: ...

    def release(self, connection: "ClientConnection", host: str) -> None: ...

    def active(self, connection: "ClientConnection") -> None: ...


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
        self._listener_name: Final = listener_name
        self._reader: Final = FrameReader(request_bytes_max)
        self._waiting: Final[deque[bytearray]] = deque()
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._handling = False
        self._write_blocked = False
        self._reading_paused = False
        self._admitted = False
        self._peer_host = ""

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "pause_reading")
        self._transport = transport  # type: ignore[assignment]
        peer = transport.get_extra_info("peername")
        self._peer_host = peer[0] if peer else ""
        self._admitted = self._limits.admit(self, self._peer_host)
        if not self._admitted:
            transport.close()
        elif self._on_connect is not None:
            self._on_connect(self._peer_host)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
        if self._admitted:
            self._limits.release(self, self._peer_host)

    def data_received(self, data: bytes) -> None:
        self._limits.active(self)
        try:
            frames = self._reader.receive(data)
        except InvalidFrame as error:
            self._hang_up(str(error))
            return
        if not frames:
            return
        if self._handling or self._write_blocked or self._waiting:
            self._waiting.extend(frames)
            self._pause_reading_if_full()
            return
        if len(frames) == 1:
            self._handle(frames[0])
        else:
            self._waiting.extend(frames)
            self._work_off()
        self._pause_reading_if_full()

    def pause_writing(self) -> None:
        self._write_blocked = True

    def resume_writing(self) -> None:
        self._write_blocked = False
        self._work_off()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # requests

    def _pause_reading_if_full(self) -> None:
        if len(self._waiting) >= WAITING_FRAMES_MAX and not self._reading_paused and self._transport is not None:
            self._reading_paused = True
            self._transport.pause_reading()

    def _work_off(self) -> None:
        waiting = self._waiting
        while waiting and not self._handling and not self._write_blocked and self._transport is not None:
            self._handle(waiting.popleft())
        if self._reading_paused and len(waiting) < WAITING_FRAMES_MAX // 2 and self._transport is not None:
            self._reading_paused = False
            self._transport.resume_reading()

    def _handle(self, frame: bytearray) -> None:
        try:
            header = read_request_header(frame)
            try:
                schema = self._dispatcher.schema_of(header)
            except UnsupportedRequest as error:
                refusal = self._dispatcher.refuse_version(header)
                if refusal is None:
                    self._hang_up(str(error))
                else:
                    self._write([refusal])
                return
            body = skip_tagged_fields(frame, header.end) if schema.flexible else header.end
            context = RequestContext(
                header.api_key,
                header.api_version,
                header.correlation_id,
                header.client_id,
                self._listener_name,
                self._peer_host,
                schema,
            )
            answer = self._dispatcher.dispatch(frame, body, context)
        except (InvalidHeader, SerialError) as error:
            self._hang_up(f"a request that cannot be read: {error or type(error).__name__}")
            return
        except Exception:
            # A fault of ours while handling one request ends this connection alone.
            logger.exception("request %s failed", frame[:8].hex())
            self._hang_up("an internal error")
            return
        kind = answer.__class__
        if kind is bytes or kind is list:
            # Hot answers come encoded.
            self._answer(answer, context)
        elif isawaitable(answer):
            self._handling = True
            self._task = asyncio.ensure_future(self._finish(answer, context))
        else:
            self._answer(answer, context)

    async def _finish(self, answer: Any, context: RequestContext) -> None:
        try:
            response = await answer
        except asyncio.CancelledError:
            return
        except Exception:
            logger.exception("request of api %d version %d failed", context.api_key, context.version)
            self._hang_up("an internal error")
            return
        self._task = None
        self._handling = False
        self._answer(response, context)
        self._work_off()

    def _answer(self, response: Any, context: RequestContext) -> None:
        if response is None:
            return
        if response is CLOSE_CONNECTION:
            self._hang_up("a request without acknowledgement failed")
            return
        head = response_header(context.correlation_id, flexible=context.schema.response_header_flexible)
        if response.__class__ is bytes:
            self._write([head, response])
        elif response.__class__ is list:
            self._write([head, *response])
        else:
            self._write([head, context.schema.write(response)])

    def _write(self, parts: list[bytes]) -> None:
        transport = self._transport
        if transport is None:
            return
        size = sum(map(len, parts))
        if size < 65536:
            transport.write(b"".join((_LENGTH.pack(size), *parts)))
        else:
            transport.writelines([_LENGTH.pack(size), *parts])

    def _hang_up(self, reason: str) -> None:
        if self._transport is not None:
            logger.info("closing the connection of %s: %s", self._peer_host, reason)
            self._waiting.clear()
            self._transport.close()

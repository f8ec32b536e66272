"""One connection to another node: the transport around a client session.

Knows nothing of reconnecting, or of what the requests mean.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from odradek.base.errors import ErrorCode
from odradek.base.ports import Executor
from odradek.server.connecting import HostPort, PeerError
from odradek.server.security import SaslClientExchange
from odradek.wire.apis import ApiKey
from odradek.wire.client_session import (
    ClientSession,
    DataToSend,
    Event,
    ResponseReceived,
    SessionFailed,
    TooManyInFlight,
    UnsupportedApi,
    VersionsNegotiated,
    VersionsRefused,
)
from odradek.wire.sasl.exchange import SaslError
from odradek.wire.schemas import Message, Schema

_REASON_MAX: Final = 500


class Disconnected(PeerError):
    """The connection ended before the response: the request may have been executed, or not."""


class Overloaded(PeerError):
    """Too many requests wait for their responses. This one was not sent."""


class NotServed(PeerError):
    """The node serves no version of the API that is known here."""


class NotAuthenticated(PeerError):
    """The node rejected this node's login, or could not prove its own."""


class PeerLink(asyncio.BufferedProtocol):
    def __init__(
        self, address: HostPort, client_id: str, response_bytes_max: int, on_end: Callable[["PeerLink"], None]
    ) -> None:
        """`on_end` is called once, by whichever side the connection ends, after the pending requests have failed."""
        self._address: Final = address
        self._on_end: Final = on_end
        self.session: Final = ClientSession(client_id, response_bytes_max=response_bytes_max)
        self._negotiation: asyncio.Future[None] | None = None
        self._pending: Final[dict[int, asyncio.Future[Message]]] = {}
        self._transport: asyncio.Transport | None = None
        self._end: str | None = None
        self._ends_when_idle = False

    @property
    def is_open(self) -> bool:
        return self._transport is not None and self._end is None

    def negotiate(self) -> asyncio.Future[None]:
        """Completes once the node's versions are known. Fails with NotServed if it refuses to list them."""
        transport = self._open_transport()
        self._negotiation = _new_future()
        transport.write(self.session.negotiate())
        return self._negotiation

    def send(self, chosen: Schema, request: Message) -> asyncio.Future[Message]:
        """Sends at once; the caller awaits the response.

        Raises Disconnected, Overloaded, and struct.error or ValueError for a request that cannot be encoded.
        """
        transport = self._open_transport()
        try:
            sent = self.session.send(chosen, request)
        except TooManyInFlight as error:
            raise Overloaded(self._address, str(error)) from None
        response = self._pending[sent.correlation_id] = _new_future()
        transport.write(sent.data)
        return response

    async def authenticate(self, exchange: SaslClientExchange, executor: Executor | None) -> float:
        """After `negotiate`, before other requests. Returns the seconds of the session; 0: it does not expire.

        Raises PeerError.
        """
        chosen = self._choose_sasl_schema(ApiKey.SASL_HANDSHAKE, exchange.mechanism)
        response = await self.send(chosen, chosen.new("SaslHandshakeRequest", mechanism=exchange.mechanism))
        if response.error_code is not ErrorCode.none:
            offered = ", ".join(response.mechanisms) or "no mechanism"
            raise NotAuthenticated(self._address, f"the node does not support {exchange.mechanism}, only {offered}")
        chosen = self._choose_sasl_schema(ApiKey.SASL_AUTHENTICATE, exchange.mechanism)
        challenge, session_seconds = b"", 0.0
        try:
            while (message := await self._next(exchange, challenge, executor)) is not None:
                response = await self.send(chosen, chosen.new("SaslAuthenticateRequest", auth_bytes=message))
                if response.error_code is not ErrorCode.none:
                    reason = response.error_message or response.error_code.name.upper()
                    raise NotAuthenticated(self._address, reason[:_REASON_MAX])
                challenge = bytes(response.auth_bytes)
                session_seconds = getattr(response, "session_lifetime", timedelta(0)).total_seconds()
        except SaslError as error:
            raise NotAuthenticated(self._address, str(error)) from None
        return session_seconds

    def end_when_idle(self) -> None:
        """Closes the connection once it has no pending requests; no more are sent."""
        self._ends_when_idle = True
        if not self._pending:
            self.end("replaced before the session expires")

    @staticmethod
    async def _next(exchange: SaslClientExchange, challenge: bytes, executor: Executor | None) -> bytes | None:
        if executor is None or not exchange.blocks:
            return exchange.next(challenge)
        return await executor.run(lambda: exchange.next(challenge))

    def _choose_sasl_schema(self, api_key: ApiKey, mechanism: str) -> Schema:
        try:
            return self.session.choose_schema(api_key)
        except UnsupportedApi as error:
            raise NotAuthenticated(self._address, f"cannot log in with {mechanism}: {error}") from None

    def end(self, reason: str) -> None:
        """Closes the connection at once; its pending requests fail with the reason."""
        if self._end is not None:
            return
        self._end = reason
        if self._transport is not None:
            self._transport.abort()
        pending = list(self._pending.values())
        self._pending.clear()
        for one in pending if self._negotiation is None else (self._negotiation, *pending):
            if not one.done():
                one.set_exception(Disconnected(self._address, reason))
        self._on_end(self)

    def _open_transport(self) -> asyncio.Transport:
        if self._transport is None or self._end is not None:
            raise Disconnected(self._address, self._end or "not connected")
        return self._transport

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "pause_reading")
        self._transport = transport  # type: ignore[assignment]
        if self._end is not None:
            transport.abort()  # type: ignore[attr-defined]

    def get_buffer(self, sizehint: int) -> memoryview:
        """The frame itself: followers receive megabytes at a time."""
        return self.session.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        if self._end is not None:
            return
        for event in self.session.buffer_updated(nbytes):
            self._on_event(event)

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None:
            self.end("the node closed the connection")
        else:
            self.end(f"the connection failed ({getattr(exc, 'strerror', None) or exc})")

    def _on_event(self, event: Event) -> None:
        match event:
            case ResponseReceived(correlation_id, response):
                pending = self._pending.pop(correlation_id, None)
                if pending is not None and not pending.done():
                    pending.set_result(response)
                if self._ends_when_idle and not self._pending:
                    self.end("replaced before the session expires")
            case VersionsNegotiated():
                if self._negotiation is not None and not self._negotiation.done():
                    self._negotiation.set_result(None)
            case VersionsRefused(error):
                if self._negotiation is not None and not self._negotiation.done():
                    reason = f"the node refuses to list its API versions ({error.name.upper()})"
                    self._negotiation.set_exception(NotServed(self._address, reason))
            case DataToSend(data):
                if self._transport is not None:
                    self._transport.write(data)
            case SessionFailed(reason):
                self.end(reason)


def _new_future() -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    # A caller that stopped waiting does not retrieve the exception.
    future.add_done_callback(_retrieve)
    return future


def _retrieve(done: asyncio.Future[Any]) -> None:
    if not done.cancelled():
        done.exception()

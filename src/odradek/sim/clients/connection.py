"""One connection of a simulated client: the transport around a client session."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from odradek.wire.client_session import (
    ClientSession,
    DataToSend,
    Event,
    ResponseReceived,
    SessionFailed,
    VersionRange,
    VersionsNegotiated,
    VersionsRefused,
)
from odradek.wire.schemas import Message, Schema

RESPONSE_BYTES_MAX: Final = 100 * 1024 * 1024


class RequestFailed(Exception):
    """The connection failed, or was never made: the request may have been executed, or not."""


class Connection(asyncio.Protocol):
    def __init__(self, client_id: str) -> None:
        self._session: Final = ClientSession(client_id, response_bytes_max=RESPONSE_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._negotiation: asyncio.Future[None] | None = None
        self._pending: Final[dict[int, asyncio.Future[Message]]] = {}

    @classmethod
    async def open(cls, host: str, port: int, *, client_id: str, timeout_seconds: float) -> "Connection":
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_seconds):
                _, connection = await loop.create_connection(lambda: cls(client_id), host, port)
                await connection._negotiate()
        except (OSError, TimeoutError) as error:
            raise RequestFailed(f"no connection to {host}: {error or 'no response'}") from error
        return connection

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    @property
    def served(self) -> Mapping[int, VersionRange]:
        return self._session.served

    def send_request(self, chosen: Schema, request: Message) -> asyncio.Future[Message]:
        """Sends at once; the caller awaits the response."""
        response = _new_future()
        if self._transport is None:
            response.set_exception(RequestFailed("the connection is closed"))
            return response
        sent = self._session.send(chosen, request)
        self._pending[sent.correlation_id] = response
        self._transport.write(sent.data)
        return response

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            self._disconnect("aborted by the client")

    def _negotiate(self) -> asyncio.Future[None]:
        self._negotiation = _new_future()
        if self._transport is None:
            self._negotiation.set_exception(RequestFailed("the connection is closed"))
        else:
            self._transport.write(self._session.negotiate())
        return self._negotiation

    # ---- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for event in self._session.receive(data):
            self._on_event(event)

    def _on_event(self, event: Event) -> None:
        match event:
            case ResponseReceived(correlation_id, response):
                pending = self._pending.pop(correlation_id, None)
                if pending is not None and not pending.done():
                    pending.set_result(response)
            case VersionsNegotiated():
                if self._negotiation is not None and not self._negotiation.done():
                    self._negotiation.set_result(None)
            case DataToSend(data):
                if self._transport is not None:
                    self._transport.write(data)
            case VersionsRefused(error):
                raise AssertionError(f"a simulated broker refused ApiVersions: {error.name}")
            case SessionFailed(reason):
                raise AssertionError(f"a simulated broker broke the protocol: {reason}")

    def connection_lost(self, exc: Exception | None) -> None:
        self._disconnect(str(exc) if exc else "closed by the broker")

    def _disconnect(self, reason: str) -> None:
        self._transport = None
        pending = list(self._pending.values())
        self._pending.clear()
        for one in pending if self._negotiation is None else (self._negotiation, *pending):
            if not one.done():
                one.set_exception(RequestFailed(reason))


def _new_future() -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    # A caller that stopped waiting does not retrieve the exception.
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
    return future

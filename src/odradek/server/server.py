"""A listener: an address on which one type of requests is served."""

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Final

from odradek.instruments.authentication import AuthenticationCounts
from odradek.server.connection import ClientConnection, ConnectionLimits, Dispatcher
from odradek.server.response_sender import Streaming
from odradek.server.security import TLS_MECHANISM, UNSECURED_LISTENER, AuthenticationFailure, ListenerSecurity
from odradek.server.tls_connection import Handshakes, ServerTls


class ListenError(Exception):
    """Cannot bind the address; the message says why and what to do."""


class Listener:
    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        limits: ConnectionLimits,
        streaming: Streaming,
        *,
        request_bytes_max: int,
        backlog: int,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
        security: ListenerSecurity = UNSECURED_LISTENER,
        handshakes: Handshakes | None = None,
    ) -> None:
        self.name: Final = name
        self.host: Final = host
        self.port = port
        self._dispatcher: Dispatcher | None = None
        self._limits: Final = limits
        self._streaming: Final = streaming
        self._request_bytes_max: Final = request_bytes_max
        self._backlog: Final = backlog
        self._security: Final = security
        self._handshakes: Final = handshakes
        self._buffer_options: Final = (
            (socket.SO_SNDBUF, send_buffer_bytes),
            (socket.SO_RCVBUF, receive_buffer_bytes),
        )
        self._on_client: Callable[[str], None] | None = None
        self._server: asyncio.Server | None = None

    @property
    def authentication_counts(self) -> AuthenticationCounts | None:
        """None without SASL."""
        return None if self._security.sasl is None else self._security.sasl.counts

    async def bind(self) -> None:
        """Binds the address; connections are refused until `serve`. Raises ListenError."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                self._new_connection,
                self.host or None,
                self.port,
                backlog=self._backlog,
                reuse_address=True,
                start_serving=False,
            )
        except OSError as error:
            raise ListenError(self._explain(error)) from error
        self.port = self._server.sockets[0].getsockname()[1]
        # Connections inherit the options of the accepting socket; -1 keeps the system's default.
        for accepting in self._server.sockets:
            for option, size in self._buffer_options:
                if size > 0:
                    accepting.setsockopt(socket.SOL_SOCKET, option, size)

    async def serve(self, dispatcher: Dispatcher) -> None:
        """Accepts connections. Raises ListenError if another process has bound the address in the meantime."""
        assert self._server is not None
        self._dispatcher = dispatcher
        try:
            await self._server.start_serving()
        except OSError as error:
            raise ListenError(self._explain(error)) from error

    def on_client(self, listener: Callable[[str], None]) -> None:
        """`listener` receives the address of each client that connects."""
        self._on_client = listener

    def _new_connection(self) -> asyncio.BaseProtocol:
        assert self._dispatcher is not None
        connection = ClientConnection(
            self._dispatcher,
            self._limits,
            self.name,
            self._request_bytes_max,
            self._streaming,
            on_connect=self._on_client,
            security=self._security,
        )
        tls = self._security.tls
        if tls is None:
            return connection
        assert self._handshakes is not None
        return ServerTls(
            connection,
            tls,
            self._handshakes,
            on_secured=connection.on_secured,
            is_admitted=lambda: connection.is_admitted,
            listener_name=self.name,
            on_failure=lambda reason: self._security.on_failure(
                AuthenticationFailure(self.name, connection.peer, TLS_MECHANISM, reason)
            ),
        )

    def _explain(self, error: OSError) -> str:
        place = f"{self.host or '*'}:{self.port}"
        if error.errno == errno.EADDRINUSE:
            return (
                f"Cannot bind {place} for listener {self.name}: address already in use. "
                "Stop the process that uses the port, or choose another port."
            )
        if error.errno == errno.EACCES:
            return (
                f"Cannot bind {place} for listener {self.name}: permission denied. "
                "Ports below 1024 need privileges: choose a higher port."
            )
        if error.errno == errno.EADDRNOTAVAIL:
            return (
                f"Cannot bind {place} for listener {self.name}: not an address of this machine. "
                "Correct the address in 'listeners'."
            )
        return f"Cannot bind {place} for listener {self.name}: {error.strerror or error}"

    def stop_accepting(self) -> None:
        if self._server is not None:
            self._server.close()

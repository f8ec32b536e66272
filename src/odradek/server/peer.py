"""Another node, as this one sends requests to it: one connection, opened when it is needed.

Several requests may be in flight; the node responds in order. The type of a PeerError says what failed. A Peer never
retries: only the caller knows whether its request may be repeated, and where.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from odradek.server.connecting import HostPort, PeerError, Refused, Unreachable, open_connection
from odradek.server.peer_link import Disconnected, NotAuthenticated, NotServed, Overloaded, PeerLink
from odradek.server.security import UNSECURED_PEER, PeerSecurity
from odradek.server.tls_peer import HandshakeFailed, open_tls_connection
from odradek.wire.client_session import UnsupportedApi, VersionRange
from odradek.wire.schemas import Message, Schema

logger = logging.getLogger(__name__)

__all__ = [
    "Disconnected",
    "HandshakeFailed",
    "NotAuthenticated",
    "NotServed",
    "Overloaded",
    "Peer",
    "PeerError",
    "PeerTimedOut",
    "Refused",
    "Unreachable",
]

# Kafka's socket.connection.setup.timeout.ms and socket.request.max.bytes.
CONNECT_TIMEOUT_SECONDS: Final = 10.0
RESPONSE_BYTES_MAX: Final = 100 * 1024 * 1024
SESSION_SHARE_USED: Final = 0.85
"""The part of a SASL session after which a connection is replaced."""

_REJECTIONS: Final = (HandshakeFailed, NotAuthenticated)

BuildRequest = Callable[[Schema], Message]


class PeerTimedOut(PeerError):
    """No response in time: the request may have been executed, or not."""


class Peer:
    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        connect_timeout_seconds: float = CONNECT_TIMEOUT_SECONDS,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
        on_disconnect: Callable[[], None] | None = None,
        security: PeerSecurity = UNSECURED_PEER,
    ) -> None:
        """`on_disconnect` is called when a connection that was ready ends, unless `close` ended it."""
        self._address: Final = HostPort(host, port)
        self._client_id: Final = client_id
        self._connect_timeout_seconds: Final = connect_timeout_seconds
        self._response_bytes_max: Final = response_bytes_max
        self._on_disconnect: Final = on_disconnect
        self._security: Final = security
        self._link: PeerLink | None = None
        # The last failure in the log.
        self._reported: str | None = None
        # The current attempt to connect, shared by all callers. It ends with the task.
        self._attempt: asyncio.Future[PeerLink] | None = None
        self._task: asyncio.Task[None] | None = None
        # Replaces the connection before its session expires.
        self._replacement: asyncio.TimerHandle | None = None
        self._is_closed = False
        self.served: Mapping[int, VersionRange] = {}
        """The lowest and the highest version of each API that the node serves, as of the last connection."""
        self.supported_features: Mapping[str, VersionRange] = {}

    @property
    def host(self) -> str:
        return self._address.host

    @property
    def port(self) -> int:
        return self._address.port

    @property
    def is_connected(self) -> bool:
        """Whether a request can be sent at once."""
        return self._link is not None

    async def connect(self) -> None:
        """Returns once there is a connection and its versions are negotiated. Raises PeerError."""
        await self._wait_for_link()

    async def request(
        self, api_key: int, build: BuildRequest, *, timeout_seconds: float, highest: int | None = None
    ) -> Message:
        """Builds the request in the newest version that both sides know, not above `highest`; returns the response.

        The timeout covers connecting, where that is necessary, and the response. A timeout closes the connection:
        requests behind the late response would wait as long.
        Raises PeerError, and what `build` raises.
        """
        link: PeerLink | None = None
        try:
            async with asyncio.timeout(timeout_seconds):
                link = await self._wait_for_link()
                chosen = self._choose_schema(link, api_key, highest)
                return await link.send(chosen, build(chosen))
        except TimeoutError:
            if link is not None:
                link.end("an earlier request timed out")
            raise PeerTimedOut(self._address, f"no response within {timeout_seconds:g} s") from None

    def close(self) -> None:
        """Closes the peer permanently. Pending requests fail with Disconnected."""
        self._is_closed = True
        reason = "closed on this side"
        if self._attempt is not None:
            self._attempt.set_exception(Disconnected(self._address, reason))
            self._attempt = None
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._link is not None:
            self._link.end(reason)
        self._cancel_replacement()

    def _cancel_replacement(self) -> None:
        if self._replacement is not None:
            self._replacement.cancel()
            self._replacement = None

    # Connecting

    async def _wait_for_link(self) -> PeerLink:
        if self._link is not None:
            return self._link
        if self._is_closed:
            raise Disconnected(self._address, "closed on this side")
        if self._attempt is None:
            loop = asyncio.get_running_loop()
            self._attempt = loop.create_future()
            # Its callers may have stopped waiting.
            self._attempt.add_done_callback(lambda attempt: attempt.exception())
            self._task = loop.create_task(self._attempt_to_connect(self._attempt))
        return await asyncio.shield(self._attempt)

    async def _attempt_to_connect(self, attempt: asyncio.Future[PeerLink]) -> None:
        try:
            link = await self._establish()
        except BaseException as error:
            # `close` has notified the callers.
            if not attempt.done():
                self._attempt = self._task = None
                is_cancelled = isinstance(error, asyncio.CancelledError)
                attempt.set_exception(Disconnected(self._address, "cancelled") if is_cancelled else error)
            if isinstance(error, _REJECTIONS) or (isinstance(error, Disconnected) and "alert" in error.reason):
                self._report(error)
            if not isinstance(error, PeerError):
                raise
        else:
            self._attempt = self._task = None
            self._reported = None
            self._link = link
            attempt.set_result(link)

    def _report(self, error: PeerError) -> None:
        """Callers retry, and only log at DEBUG: the operator has to correct certificates, passwords or configs."""
        if error.reason != self._reported:
            self._reported = error.reason
            logger.warning("Cannot connect: client=%s, %s", self._client_id, error)

    async def _establish(self) -> PeerLink:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._connect_timeout_seconds
        link = await self._open_link(deadline)
        try:
            async with asyncio.timeout_at(deadline):
                await link.negotiate()
                await self._authenticate(link)
        except TimeoutError:
            link.end("ApiVersions timed out")
            within = f"within {self._connect_timeout_seconds:g} s"
            raise PeerTimedOut(self._address, f"connected, but no response to ApiVersions {within}") from None
        except BaseException:
            link.end("cancelled before the connection was ready")
            raise
        if not link.is_open:
            raise Disconnected(self._address, "the node closed the connection after ApiVersions")
        self.served = link.session.served
        self.supported_features = link.session.supported_features
        return link

    async def _authenticate(self, link: PeerLink) -> None:
        if self._security.new_sasl_exchange is None:
            return
        seconds = await link.authenticate(self._security.new_sasl_exchange(), self._security.executor)
        if seconds > 0:
            # Instead of authenticating again, which would delay the requests of the connection.
            loop = asyncio.get_running_loop()
            self._replacement = loop.call_later(seconds * SESSION_SHARE_USED, self._replace, link)

    def _replace(self, link: PeerLink) -> None:
        """The next request opens a new connection."""
        if link is self._link:
            self._link = None
            link.end_when_idle()

    async def _open_link(self, deadline: float) -> PeerLink:
        new_context = self._security.tls
        if new_context is None:
            _, link = await open_connection(self._new_link, self._address, self._connect_timeout_seconds)
            return link
        link = self._new_link()
        await open_tls_connection(link, self._address, new_context, self._connect_timeout_seconds, deadline)
        return link

    def _new_link(self) -> PeerLink:
        return PeerLink(self._address, self._client_id, self._response_bytes_max, self._on_link_end)

    def _on_link_end(self, link: PeerLink) -> None:
        if link is self._link:
            self._link = None
            self._cancel_replacement()
            if self._on_disconnect is not None and not self._is_closed:
                self._on_disconnect()

    def _choose_schema(self, link: PeerLink, api_key: int, highest: int | None) -> Schema:
        try:
            return link.session.choose_schema(api_key, highest=highest)
        except UnsupportedApi as error:
            raise NotServed(self._address, str(error)) from None

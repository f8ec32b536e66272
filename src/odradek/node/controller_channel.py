"""The active controller as this node reaches it: in this process, or over a connection to another node.

A request waits until an active controller has responded, or until it times out. As in Kafka, the node sends its own
requests directly, and those of its clients in an Envelope. A request whose response was lost is sent again, so the
controller may execute it twice.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Client, Clock
from odradek.config.node_config import NodeConfig
from odradek.core.controller.controller import Controller
from odradek.core.security.access import UNRESTRICTED
from odradek.node.committed_offset import find_committed_offset
from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import RequestContext
from odradek.server.peer import NotAuthenticated, NotServed, Peer, PeerError
from odradek.server.security import UNSECURED_PEER, PeerSecurity
from odradek.wire.apis import CONSENSUS_APIS, CONTROLLER_APIS, INTERNAL_APIS, ApiKey, load_handler
from odradek.wire.client_address import forwarded_host, pack_address
from odradek.wire.forwarding import is_from_wrong_node, read_forwarded_response, write_forwarded_request
from odradek.wire.principal import write_principal
from odradek.wire.schemas import Message, Schema, SerialError, schema

logger = logging.getLogger(__name__)

FORWARDING_SECONDS_MAX: Final = 60.0
"""The retry timeout of Kafka's brokers for forwarded requests."""
RETRY_SECONDS: Final = 0.05
RETIRED_SECONDS_MAX: Final = 1.0
"""How long the connection to a former controller stays open for responses that it sent before it resigned."""
APPLY_SECONDS_MAX: Final = 1.0
"""The response is correct without the wait, and this node applies the records soon."""
WAITING_MAX: Final = 10_000

_NO_CORRELATION: Final = 0
_LOOPBACK: Final = "127.0.0.1"


class LeaderAddress(Protocol):
    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


class QuorumView(Protocol):
    """This node's replica of the metadata log, as far as the channel uses it."""

    @property
    def is_leader(self) -> bool: ...

    @property
    def leader(self) -> LeaderAddress | None: ...

    @property
    def high_watermark(self) -> int: ...

    def on_leader_change(self, listener: Callable[[], None], /) -> None: ...


class LocalController(Protocol):
    def on_activation(self, listener: Callable[[Controller | None], None], /) -> None: ...


class _OtherVersion(Exception):
    """The active controller serves the API, but not the version of the request."""


class ControllerChannel:
    """`ForwardingPort` of everything in this node that needs the active controller. It has one connection at a time."""

    def __init__(
        self,
        config: NodeConfig,
        quorum: QuorumView,
        controller: LocalController,
        *,
        clock: Clock,
        local_node: ControllerNodePort | None = None,
        retry_seconds_max: float = FORWARDING_SECONDS_MAX,
        wait_until_applied: Callable[[int], Awaitable[None]] | None = None,
        peer_security: PeerSecurity = UNSECURED_PEER,
    ) -> None:
        """`local_node` is this node's controller side, if it has one. `wait_until_applied` waits until this node has
        applied the log up to an offset; without it, responses wait only for the commit.
        """
        self._config: Final = config
        self._own: Final = Client(str(config.node_id), _LOOPBACK)
        self._quorum: Final = quorum
        self._local_node: Final = local_node
        self._clock: Final = clock
        self._retry_seconds_max: Final = retry_seconds_max
        self._wait_until_applied: Final = wait_until_applied
        self._peer_security: Final = peer_security
        self._response_seconds_max: Final = min(config.controller_socket_timeout_ms / 1000, retry_seconds_max)
        self._peer: Peer | None = None
        # The last reason why the active controller rejected this node's login.
        self._rejection = ""
        self._retired: Final[dict[Peer, asyncio.TimerHandle]] = {}
        self._retry = asyncio.Event()
        """Set, and replaced by another, when a request that failed before may succeed now."""
        self._disconnect_listeners: Final[list[Callable[[], None]]] = []
        self._waiting = 0
        self._is_closed = False
        quorum.on_leader_change(self._on_leader_change)
        controller.on_activation(lambda _: self._wake_waiting())

    def on_disconnect(self, listener: Callable[[], None]) -> None:
        """Calls `listener` when the connection closes or the leader changes: the next controller may not know this
        broker yet.
        """
        self._disconnect_listeners.append(listener)

    def close(self) -> None:
        self._is_closed = True
        for peer, timer in self._retired.items():
            timer.cancel()
            peer.close()
        self._retired.clear()
        if self._peer is not None:
            self._peer.close()
            self._peer = None
        self._wake_waiting()

    async def handle(self, api_key: int, version: int, request: Any) -> Any:
        """Sends a request of this node. Returns the active controller's response, or one with REQUEST_TIMED_OUT."""
        return await self.forward(self._own, api_key, version, request)

    async def forward(self, client: Client, api_key: int, version: int, request: Any) -> Any:
        messages = schema(api_key, version)
        if self._waiting >= WAITING_MAX:
            return _error_response(request, messages, ErrorCode.request_timed_out)
        deadline = self._clock.monotonic() + self._retry_seconds_max
        self._waiting += 1
        try:
            while not self._is_closed and (left := deadline - self._clock.monotonic()) > 0:
                retry = self._retry
                response = await self._attempt(messages, request, client, left)
                if response is not None:
                    return response
                await self._wait_for_retry(retry, deadline)
        finally:
            self._waiting -= 1
        return _error_response(request, messages, ErrorCode.request_timed_out)

    # One attempt

    async def _attempt(self, messages: Schema, request: Message, client: Client, seconds_max: float) -> Message | None:
        """None: no active controller responded."""
        try:
            if self._quorum.is_leader:
                async with asyncio.timeout(seconds_max):
                    return await self._handle_locally(messages, request, client)
            if (leader := self._quorum.leader) is not None:
                response_seconds_max = min(seconds_max, self._response_seconds_max)
                return await self._send(self._peer_at(leader), messages, request, client, response_seconds_max)
        except TimeoutError:
            pass
        except (NotServed, _OtherVersion):
            return _error_response(request, messages, ErrorCode.unsupported_version)
        except NotAuthenticated as error:
            self._warn_of_rejection(str(error))
            if client is not self._own:
                return _error_response(request, messages, ErrorCode.unknown_server_error)
        except PeerError as error:
            logger.debug("Active controller not reached: %s", error)
        return None

    def _warn_of_rejection(self, reason: str) -> None:
        """Once: every request meets it, until the configuration of a node changes."""
        if reason != self._rejection:
            self._rejection = reason
            logger.warning("This node cannot log in to the active controller: %s", reason)

    async def _handle_locally(self, messages: Schema, request: Message, client: Client) -> Message | None:
        assert self._local_node is not None, "only a controller leads the quorum"
        host = client.host if client is self._own else forwarded_host(client.host)
        context = RequestContext(
            api_key=messages.api_key,
            version=messages.version,
            client_id=client.client_id,
            listener_name=self._config.controller_listener_names[0],
            peer_host=host,
            schema=messages,
            principal=client.principal,
            # What this node requests for itself is not authorized, and a client's request as if it came in an Envelope.
            access=UNRESTRICTED if client is self._own else self._local_node.access_of(client.principal, host),
            is_forwarded=True,
        )
        handle = load_handler(CONTROLLER_APIS[messages.api_key]).handle
        if self._local_node.audit is not None:
            handle = self._local_node.audit.add_to(messages.api_key, handle)
        response: Message = await handle(request, context, self._local_node)
        if is_from_wrong_node(messages.api_key, response):
            return None
        if self._wait_until_applied is not None and _changes_image(messages):
            await self._wait_until_applied(self._quorum.high_watermark - 1)
        return response

    async def _send(
        self, peer: Peer, messages: Schema, request: Message, client: Client, seconds_max: float
    ) -> Message | None:
        if client is self._own or messages.api_key in INTERNAL_APIS:
            # The controller authorizes the principal of this connection.
            response = await self._send_directly(peer, messages, request, seconds_max)
        else:
            response = await self._send_envelope(peer, messages, request, client, seconds_max)
        if response is None or is_from_wrong_node(messages.api_key, response):
            return None
        if self._wait_until_applied is not None and _changes_image(messages):
            await self._wait_until_committed_is_applied(peer, self._wait_until_applied)
        return response

    @staticmethod
    async def _send_directly(peer: Peer, messages: Schema, request: Message, seconds_max: float) -> Message:
        def build(chosen: Schema) -> Message:
            if chosen.version != messages.version:
                raise _OtherVersion
            return request

        return await peer.request(messages.api_key, build, timeout_seconds=seconds_max, highest=messages.version)

    @staticmethod
    async def _send_envelope(
        peer: Peer, messages: Schema, request: Message, client: Client, seconds_max: float
    ) -> Message | None:
        data = write_forwarded_request(messages, request, correlation_id=_NO_CORRELATION, client_id=client.client_id)
        envelope = await peer.request(
            ApiKey.ENVELOPE,
            lambda chosen: chosen.new(
                "EnvelopeRequest",
                request_data=data,
                request_principal=write_principal(client.principal),
                client_host_address=pack_address(client.host),
            ),
            timeout_seconds=seconds_max,
        )
        return _read_envelope(envelope, request, messages)

    @staticmethod
    async def _wait_until_committed_is_applied(
        peer: Peer, wait_until_applied: Callable[[int], Awaitable[None]]
    ) -> None:
        """Waits, for a limited time, until this node has applied everything that the leader has committed by now.

        A client that created a topic then finds it at the broker that it used.
        """
        try:
            async with asyncio.timeout(APPLY_SECONDS_MAX):
                offset = await find_committed_offset(peer, timeout_seconds=APPLY_SECONDS_MAX)
                if offset is not None:
                    await wait_until_applied(offset)
        except (TimeoutError, PeerError) as error:
            logger.debug("Metadata change may not be applied here yet: %s", error)

    def _peer_at(self, leader: LeaderAddress) -> Peer:
        if self._peer is None or not _is_at(self._peer, leader):
            self._retire()
            peer = Peer(
                leader.host,
                leader.port,
                client_id=str(self._config.node_id),
                connect_timeout_seconds=self._config.socket_connection_setup_timeout_ms / 1000,
                on_disconnect=lambda: self._on_peer_disconnect(peer),
                security=self._peer_security,
            )
            self._peer = peer
        return self._peer

    async def _wait_for_retry(self, retry: asyncio.Event, deadline: float) -> None:
        """Retries soon while a leader is known; without one, only an event can help."""
        left = deadline - self._clock.monotonic()
        has_leader = self._quorum.is_leader or self._quorum.leader is not None
        try:
            async with asyncio.timeout(min(left, RETRY_SECONDS) if has_leader else left):
                await retry.wait()
        except TimeoutError:
            pass

    # The connection

    def _on_leader_change(self) -> None:
        leader = self._quorum.leader
        if self._peer is not None and (
            self._quorum.is_leader or (leader is not None and not _is_at(self._peer, leader))
        ):
            self._retire()
        self._wake_waiting()
        if leader is not None:
            self._notify_disconnect()

    def _retire(self) -> None:
        peer, self._peer = self._peer, None
        if peer is not None:
            loop = asyncio.get_running_loop()
            self._retired[peer] = loop.call_later(RETIRED_SECONDS_MAX, self._close_retired, peer)

    def _close_retired(self, peer: Peer) -> None:
        del self._retired[peer]
        peer.close()

    def _on_peer_disconnect(self, peer: Peer) -> None:
        if peer is self._peer:
            self._notify_disconnect()

    def _wake_waiting(self) -> None:
        self._retry.set()
        self._retry = asyncio.Event()

    def _notify_disconnect(self) -> None:
        for listener in self._disconnect_listeners:
            listener()


def _changes_image(messages: Schema) -> bool:
    """Whether the client expects this node to serve the change that it requested.

    The node's own requests must not wait for the node itself: its heartbeats continue while it applies records.
    """
    return messages.api_key not in INTERNAL_APIS and messages.api_key not in CONSENSUS_APIS


def _is_at(peer: Peer, leader: LeaderAddress) -> bool:
    return (peer.host, peer.port) == (leader.host, leader.port)


def _error_response(request: Message, messages: Schema, code: ErrorCode) -> Message:
    handler = load_handler(CONTROLLER_APIS[messages.api_key])
    return handler.build_error_response(request, messages, KafkaError(code))


def _read_envelope(envelope: Message, request: Message, messages: Schema) -> Message | None:
    """Returns the inner response. None: the node is not the active controller."""
    match envelope.error_code:
        case ErrorCode.none:
            try:
                return read_forwarded_response(messages, envelope.response_data or b"", correlation_id=_NO_CORRELATION)
            except SerialError as error:
                logger.warning("Cannot read the active controller's response: api=%s, %s", messages.api_name, error)
        case ErrorCode.not_controller:
            return None
        case ErrorCode.unsupported_version:
            raise _OtherVersion
        case code:
            logger.warning("Envelope rejected: api=%s, error=%s", messages.api_name, code.name.upper())
    # As in Kafka, the client sees a server error, since its request may be correct.
    return _error_response(request, messages, ErrorCode.unknown_server_error)

"""The active controller, wherever it runs: in this process, or behind a connection that is made and made again.

A request waits until there is an active controller and it has answered, or until its time is over. As in Kafka, what
a broker wants for itself is asked directly, and what its clients want goes in an envelope; an answer that never came
is no answer, so that a request may be asked twice.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Client, Clock, ControllerPort
from odradek.config.node_config import NodeConfig
from odradek.core.controller.controller import Controller
from odradek.node.taking_up import take_up
from odradek.quorum import wire
from odradek.quorum.apis.commands.apis import load_handler
from odradek.server.peer import NotServed, Peer, PeerError
from odradek.wire.forwarding import is_from_wrong_node, read_forwarded_response, write_forwarded_request
from odradek.wire.principal import ANONYMOUS, write_principal
from odradek.wire.schemas import Message, Schema, SerialError, schema

logger = logging.getLogger(__name__)

FORWARDING_SECONDS_MAX: Final = 60.0
"""As long as Kafka's brokers try for their clients."""
RETRY_SECONDS: Final = 0.05
LAST_ANSWERS_SECONDS_MAX: Final = 1.0
"""For the answers of a controller that is not active any more. It may have decided before that."""
WAITING_MAX: Final = 10_000

ENVELOPE: Final = 58
OWN_APIS: Final = frozenset({56, 62, 63, 67, 70, 73})
"""What nodes ask for themselves."""
CONSENSUS_APIS: Final = frozenset({wire.DESCRIBE_QUORUM, wire.ADD_RAFT_VOTER, wire.REMOVE_RAFT_VOTER})
"""Answered by the quorum's leader as such, not by its controller."""

_NO_CORRELATION: Final = 0
_LOOPBACK: Final = "127.0.0.1"


class LeaderAddress(Protocol):
    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


class QuorumView(Protocol):
    """This node's part in the quorum, as far as the channel looks."""

    @property
    def is_leader(self) -> bool: ...

    @property
    def leader(self) -> LeaderAddress | None: ...

    def on_leader_change(self, told: Callable[[], None], /) -> None: ...

    async def answer(self, api_key: int, version: int, request: Message, listener_name: str) -> Message: ...


class LocalController(ControllerPort, Protocol):
    """This node's own controller: it refuses with NOT_CONTROLLER while another one is active."""

    @property
    def remote(self) -> ControllerPort:
        """Answers once a decision is committed, whether or not this node has taken it up."""

    def on_activation(self, told: Callable[[Controller | None], None], /) -> None: ...


class _OtherVersion(Exception):
    """The active controller serves the API, but not in the version that the request is of."""


class ControllerChannel:
    """`ControllerPort` of everything in this node that needs the active controller. One connection at a time."""

    def __init__(
        self,
        config: NodeConfig,
        quorum: QuorumView,
        controller: LocalController,
        *,
        clock: Clock,
        retry_seconds_max: float = FORWARDING_SECONDS_MAX,
        reached: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        """`reached` waits until this node has taken up an offset. Without it clients hear of what is only committed."""
        self._config: Final = config
        self._own: Final = Client(str(config.node_id), _LOOPBACK)
        self._quorum: Final = quorum
        self._controller: Final = controller
        self._clock: Final = clock
        self._retry_seconds_max: Final = retry_seconds_max
        self._reached: Final = reached
        self._answer_seconds_max: Final = min(config.controller_socket_timeout_ms / 1000, retry_seconds_max)
        self._peer: Peer | None = None
        self._retired: Final[dict[Peer, asyncio.TimerHandle]] = {}
        self._news = asyncio.Event()
        """Set, and replaced by another, when what failed before may succeed now."""
        self._break_listeners: Final[list[Callable[[], None]]] = []
        self._waiting = 0
        self._is_closed = False
        quorum.on_leader_change(self._leader_changed)
        controller.on_activation(lambda _: self._tell_waiting())

    def on_break(self, told: Callable[[], None]) -> None:
        """Called when the connection broke, or another controller may be active: who it was may not be known there."""
        self._break_listeners.append(told)

    def close(self) -> None:
        self._is_closed = True
        for peer, timer in self._retired.items():
            timer.cancel()
            peer.close()
        self._retired.clear()
        if self._peer is not None:
            self._peer.close()
            self._peer = None
        self._tell_waiting()

    async def handle(self, api_key: int, version: int, request: Any) -> Any:
        """The active controller's answer, or REQUEST_TIMED_OUT in the form of one."""
        return await self.forward(self._own, api_key, version, request)

    async def forward(self, client: Client, api_key: int, version: int, request: Any) -> Any:
        messages = schema(api_key, version)
        if self._waiting >= WAITING_MAX:
            return _refusal(request, messages, ErrorCode.request_timed_out)
        deadline = self._clock.monotonic() + self._retry_seconds_max
        self._waiting += 1
        try:
            while not self._is_closed and (left := deadline - self._clock.monotonic()) > 0:
                news = self._news
                response = await self._attempt(messages, request, client, left)
                if response is not None:
                    return response
                await self._wait_for(news, deadline)
        finally:
            self._waiting -= 1
        return _refusal(request, messages, ErrorCode.request_timed_out)

    # One attempt

    async def _attempt(self, messages: Schema, request: Message, client: Client, seconds_max: float) -> Message | None:
        """None: nobody answered who could."""
        response: Message | None
        try:
            if self._quorum.is_leader:
                async with asyncio.timeout(seconds_max):
                    response = await self._ask_here(messages, request)
            elif (leader := self._quorum.leader) is not None:
                response = await self._ask_there(
                    self._peer_at(leader), messages, request, client, min(seconds_max, self._answer_seconds_max)
                )
            else:
                return None
        except TimeoutError:
            return None
        except (NotServed, _OtherVersion):
            return _refusal(request, messages, ErrorCode.unsupported_version)
        except PeerError as error:
            logger.debug("the active controller was not reached: %s", error)
            return None
        return None if response is None or is_from_wrong_node(messages.api_key, response) else response

    async def _ask_here(self, messages: Schema, request: Message) -> Message:
        if messages.api_key in CONSENSUS_APIS:
            listener_name = self._config.controller_listener_names[0]
            return await self._quorum.answer(messages.api_key, messages.version, request, listener_name)
        # What the node wants for itself must not wait for what the node has yet to do: heartbeats go on meanwhile.
        controller = self._controller.remote if messages.api_key in OWN_APIS else self._controller
        return await controller.handle(messages.api_key, messages.version, request)

    async def _ask_there(
        self, peer: Peer, messages: Schema, request: Message, client: Client, seconds_max: float
    ) -> Message | None:
        if messages.api_key in OWN_APIS:

            def as_it_is(chosen: Schema) -> Message:
                if chosen.version != messages.version:
                    raise _OtherVersion
                return request

            return await peer.request(messages.api_key, as_it_is, timeout_seconds=seconds_max, highest=messages.version)
        data = write_forwarded_request(messages, request, correlation_id=_NO_CORRELATION, client_id=client.client_id)
        answer = await peer.request(
            ENVELOPE,
            lambda chosen: chosen.new(
                "EnvelopeRequest",
                request_data=data,
                request_principal=write_principal(ANONYMOUS),
                client_host_address=_packed(client.host),
            ),
            timeout_seconds=seconds_max,
        )
        response = _opened(answer, request, messages)
        if response is not None and self._reached is not None and messages.api_key not in CONSENSUS_APIS:
            await take_up(peer, self._reached)
        return response

    def _peer_at(self, leader: LeaderAddress) -> Peer:
        if self._peer is None or not _is_at(self._peer, leader):
            self._retire()
            peer = Peer(
                leader.host,
                leader.port,
                client_id=str(self._config.node_id),
                connect_timeout_seconds=self._config.socket_connection_setup_timeout_ms / 1000,
                on_disconnect=lambda: self._lost(peer),
            )
            self._peer = peer
        return self._peer

    async def _wait_for(self, news: asyncio.Event, deadline: float) -> None:
        """Whoever leads may answer the next time; as long as nobody does, only news will help."""
        left = deadline - self._clock.monotonic()
        somebody_leads = self._quorum.is_leader or self._quorum.leader is not None
        try:
            async with asyncio.timeout(min(left, RETRY_SECONDS) if somebody_leads else left):
                await news.wait()
        except TimeoutError:
            pass

    # What happens to the connection

    def _leader_changed(self) -> None:
        leader = self._quorum.leader
        if self._peer is not None and (
            self._quorum.is_leader or (leader is not None and not _is_at(self._peer, leader))
        ):
            self._retire()
        self._tell_waiting()
        if leader is not None:
            self._tell_break()

    def _retire(self) -> None:
        peer, self._peer = self._peer, None
        if peer is not None:
            loop = asyncio.get_running_loop()
            self._retired[peer] = loop.call_later(LAST_ANSWERS_SECONDS_MAX, self._end, peer)

    def _end(self, peer: Peer) -> None:
        del self._retired[peer]
        peer.close()

    def _lost(self, peer: Peer) -> None:
        if peer is self._peer:
            self._tell_break()

    def _tell_waiting(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _tell_break(self) -> None:
        for told in self._break_listeners:
            told()


def _packed(host: str) -> bytes:
    """Four or sixteen bytes. As in Java, an IPv4 address that came over IPv6 is one of four."""
    from ipaddress import IPv6Address, ip_address  # only where something is forwarded

    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        address = ip_address(_LOOPBACK)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).packed


def _is_at(peer: Peer, leader: LeaderAddress) -> bool:
    return (peer.host, peer.port) == (leader.host, leader.port)


def _refusal(request: Message, messages: Schema, code: ErrorCode) -> Message:
    if messages.api_key in CONSENSUS_APIS:
        return wire.refuse(messages.api_key, messages, code)
    return load_handler(messages.api_key).refuse(request, messages, KafkaError(code))


def _opened(answer: Message, request: Message, messages: Schema) -> Message | None:
    """What is in the envelope. None: another controller is to be asked."""
    match answer.error_code:
        case ErrorCode.none:
            try:
                return read_forwarded_response(messages, answer.response_data or b"", correlation_id=_NO_CORRELATION)
            except SerialError as error:
                logger.warning("the active controller's answer cannot be read: %s", error)
        case ErrorCode.not_controller:
            return None
        case ErrorCode.unsupported_version:
            raise _OtherVersion
        case code:
            logger.warning("the active controller did not take the envelope: %s", code.name.upper())
    # As Kafka: the client is told of a problem that is not its own.
    return _refusal(request, messages, ErrorCode.unknown_server_error)

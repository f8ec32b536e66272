"""Connections to the other replicas: sends requests and reports responses as events.

A connection that closes is opened again at once, even if there is nothing to send: a refused connection shows that no
process listens there any more.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from odradek.base.background import start_task
from odradek.base.errors import ErrorCode
from odradek.config.listeners import Address
from odradek.core.metadata.features import KRAFT_VERSION
from odradek.core.raft.effects import Send
from odradek.core.raft.events import ConnectionRefused, ConnectionUp, Event, RequestFailed, ResponseReceived
from odradek.core.raft.messages import ApiVersionsRequest, ApiVersionsResponse, FetchRequest
from odradek.quorum import wire
from odradek.quorum.misconfiguration import MisconfigurationLog
from odradek.records.batch import CorruptBatch
from odradek.records.control import KRaftVersionRange, VoterEndpoint
from odradek.server.peer import NotServed, Peer, PeerError, Refused
from odradek.server.security import UNSECURED_PEER, PeerSecurity
from odradek.wire.apis import CONTROLLER_APIS
from odradek.wire.schemas import Schema

logger = logging.getLogger(__name__)

CONNECT_SECONDS_MAX: Final = 1.0
BOOTSTRAP_ID_MAX: Final = -2
"""Nodes with a known address but an unknown ID get IDs from here downward."""


def bootstrap_ids(addresses: Sequence[Address]) -> tuple[int, ...]:
    return tuple(BOOTSTRAP_ID_MAX - index for index in range(len(addresses)))


class Peers:
    def __init__(
        self,
        misconfiguration: MisconfigurationLog,
        *,
        client_id: str,
        listener_name: str,
        bootstrap: Sequence[Address],
        request_timeout_seconds: float,
        peer_security: PeerSecurity = UNSECURED_PEER,
    ) -> None:
        """`listener_name` selects the endpoint of a node."""
        self._misconfiguration: Final = misconfiguration
        self._client_id: Final = client_id
        self._listener_name: Final = listener_name
        self._bootstrap: Final = dict(zip(bootstrap_ids(bootstrap), bootstrap, strict=True))
        self._request_timeout_seconds: Final = request_timeout_seconds
        self._peer_security: Final = peer_security
        self._peers: Final[dict[int, Peer]] = {}
        self._addresses: Final[dict[int, Address]] = {}
        self._tasks: Final[dict[asyncio.Task[None], None]] = {}
        # A Fetch contains this node's log end, which is outdated if the Fetch waited for its connection.
        self._newest_fetch: Send | None = None
        self._step: Callable[[Event], Any] = lambda event: None

    def use(self, step: Callable[[Event], Any]) -> None:
        """Sets the receiver of events."""
        self._step = step

    def address_of(self, node_id: int, endpoints: Sequence[VoterEndpoint]) -> Address | None:
        if node_id in self._bootstrap:
            return self._bootstrap[node_id]
        if not endpoints:
            return None
        chosen = next((one for one in endpoints if one.name == self._listener_name), endpoints[0])
        return Address(chosen.host, chosen.port)

    def unreachable(self) -> list[str]:
        """The nodes to which a connection was attempted and does not exist."""
        return [
            f"{f'{node_id} at ' if node_id >= 0 else ''}{self._addresses[node_id].host}:{self._addresses[node_id].port}"
            for node_id, peer in sorted(self._peers.items())
            if not peer.is_connected
        ]

    def send(self, effect: Send) -> None:
        if isinstance(effect.message, FetchRequest):
            self._newest_fetch = effect
        address = self.address_of(effect.destination, effect.endpoints)
        self._start(self._exchange(effect, address))

    async def close(self) -> None:
        for peer in self._peers.values():
            peer.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # One request

    async def _exchange(self, effect: Send, address: Address | None) -> None:
        destination, message = effect.destination, effect.message
        failed = RequestFailed(destination, effect.correlation_id)
        if address is None:
            # Reported after the step that sent it, since steps must not be nested.
            self._step(failed)
            return
        peer = self._peer(destination, address)
        try:
            await self._connect(destination, peer)
            if isinstance(message, FetchRequest) and effect is not self._newest_fetch:
                self._step(failed)
                return
            if isinstance(message, ApiVersionsRequest):
                response: Any = _versions_of(peer)
            else:
                api_key = wire.API_OF[type(message)]

                def build(messages: Schema) -> Any:
                    return wire.write_request(messages, message)

                received = await peer.request(
                    api_key, build, timeout_seconds=self._request_timeout_seconds, highest=CONTROLLER_APIS[api_key].high
                )
                response = wire.read_response(api_key, received, listener_name=self._listener_name)
        except (NotServed, wire.UnsupportedRequest):
            response = wire.peer_error_response(wire.API_OF[type(message)], ErrorCode.unsupported_version)
        except (PeerError, CorruptBatch, ValueError) as error:
            name = type(message).__name__
            logger.debug("Raft request failed: type=%s, nodeId=%d, reason=%s", name, destination, error)
            self._step(failed)
            return
        except Exception:
            # A response that cannot be understood, or a bug: without a result, the replica would wait for one.
            logger.exception("Raft request failed: type=%s, nodeId=%d", type(message).__name__, destination)
            self._step(failed)
            return
        self._misconfiguration.on_response(destination, address, response.error)
        self._step(ResponseReceived(destination, effect.correlation_id, response))

    async def _connect(self, destination: int, peer: Peer) -> None:
        if peer.is_connected:
            return
        try:
            await peer.connect()
        except Refused:
            self._step(ConnectionRefused(destination))
            raise
        self._step(ConnectionUp(destination))

    def _peer(self, destination: int, address: Address) -> Peer:
        if self._addresses.get(destination) != address:
            former = self._peers.pop(destination, None)
            if former is not None:
                former.close()
            self._addresses[destination] = address
            self._peers[destination] = Peer(
                address.host,
                address.port,
                client_id=self._client_id,
                connect_timeout_seconds=CONNECT_SECONDS_MAX,
                on_disconnect=lambda: self._start(self._reconnect(destination, address)),
                security=self._peer_security,
            )
        return self._peers[destination]

    async def _reconnect(self, destination: int, address: Address) -> None:
        peer = self._peers.get(destination)
        if peer is None or self._addresses.get(destination) != address:
            return
        try:
            await self._connect(destination, peer)
        except PeerError as error:
            logger.info("Voter disconnected: nodeId=%d, reason=%s", destination, error)

    def _start(self, work: Any) -> None:
        task = start_task("connection to another voter", work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))


def _versions_of(peer: Peer) -> ApiVersionsResponse:
    low, high = peer.supported_features.get(KRAFT_VERSION, (0, 0))
    return ApiVersionsResponse(kraft_versions=KRaftVersionRange(min_supported_version=low, max_supported_version=high))

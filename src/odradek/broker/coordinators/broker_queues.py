"""Queues of requests to other brokers: entries that arrive while a request is in flight share the next one.

Each broker has one request in flight. The owner of a queue builds the requests and reads the responses.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from odradek.base.background import start_task
from odradek.config.node_config import NodeConfig
from odradek.core.metadata.image import ClusterImage
from odradek.server.connecting import HostPort
from odradek.server.peer import BuildRequest, Peer, Unreachable
from odradek.server.security import UNSECURED_PEER, PeerSecurity
from odradek.wire.schemas import Message

logger = logging.getLogger(__name__)

T = TypeVar("T")

CLIENT_ID: Final = "broker-{}-txn"


class BrokerPeers:
    """Connections to brokers, at the addresses of the metadata image."""

    def __init__(
        self, config: NodeConfig, image: Callable[[], ClusterImage], peer_security: PeerSecurity = UNSECURED_PEER
    ) -> None:
        self._listener: Final = config.inter_broker_listener_name
        self._client_id: Final = CLIENT_ID.format(config.node_id)
        self._timeout_seconds: Final = config.effective_number("request.timeout.ms") / 1000
        self._image: Final = image
        self._peer_security: Final = peer_security
        self._peers: Final[dict[int, Peer]] = {}

    async def request(self, broker_id: int, api_key: int, build: BuildRequest) -> Message:
        """Raises PeerError."""
        return await self._peer(broker_id).request(api_key, build, timeout_seconds=self._timeout_seconds)

    def _peer(self, broker_id: int) -> Peer:
        broker = self._image().brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(self._listener)
        if endpoint is None:
            raise Unreachable(HostPort(f"broker {broker_id}", 0), "the broker is not registered")
        peer = self._peers.get(broker_id)
        if peer is None or (peer.host, peer.port) != (endpoint.host, endpoint.port):
            if peer is not None:
                peer.close()
            peer = self._peers[broker_id] = Peer(
                endpoint.host, endpoint.port, client_id=self._client_id, security=self._peer_security
            )
        return peer

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()


class BrokerQueues(Generic[T]):
    def __init__(self, send: Callable[[int, list[T]], Awaitable[None]], entries_max: int) -> None:
        """`send` gets a broker id and the entries for it. Its exceptions are logged, and other brokers not affected."""
        self._send: Final = send
        self._entries_max: Final = entries_max
        self._waiting: Final[dict[int, list[T]]] = {}
        self._tasks: Final[dict[int, asyncio.Task[None]]] = {}

    def add(self, broker_id: int, entry: T) -> None:
        self._waiting.setdefault(broker_id, []).append(entry)
        if broker_id not in self._tasks:
            self._tasks[broker_id] = start_task(f"requests to broker {broker_id}", self._run(broker_id))

    def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def _run(self, broker_id: int) -> None:
        try:
            while waiting := self._waiting.pop(broker_id, None):
                entries, rest = waiting[: self._entries_max], waiting[self._entries_max :]
                if rest:
                    self._waiting[broker_id] = rest
                try:
                    await self._send(broker_id, entries)
                except Exception:
                    logger.exception("Request to broker %d failed", broker_id)
        finally:
            del self._tasks[broker_id]

"""What every simulated client needs: connections, metadata and the leaders of partitions."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from random import Random
from typing import Final, NamedTuple
from uuid import UUID

from odradek.base.ids import TopicPartition
from odradek.sim.clients.connection import Connection, RequestFailed
from odradek.sim.clients.login import Login, LoginRejected, authenticate
from odradek.sim.computer import Ports
from odradek.sim.trace import Trace
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema, schema

# Earlier versions have no schemas in kio, or return no topic ids.
LOWEST_VERSION: Final[Mapping[int, int]] = {ApiKey.PRODUCE: 3, ApiKey.FETCH: 4, ApiKey.METADATA: 10}
LOWEST_VERSION_WITH_EPOCHS: Final[Mapping[int, int]] = {**LOWEST_VERSION, ApiKey.FETCH: 12, ApiKey.LIST_OFFSETS: 5}
"""For clients that send the leader epoch they know and receive the leader epoch in responses."""
_HIGHEST_PROBABILITY: Final = 0.7


class Leader(NamedTuple):
    host: str
    port: int
    topic_id: UUID | None
    epoch: int


class ClusterClient:
    def __init__(
        self,
        ports: Ports,
        bootstrap: Sequence[tuple[str, int]],
        trace: Trace,
        lowest_versions: Mapping[int, int] = LOWEST_VERSION,
        login: Login | None = None,
    ) -> None:
        """`lowest_versions`: API key -> the lowest version with all the fields that the checkers need. `login`: for
        clusters with SASL.
        """
        self._ports: Final = ports
        self.name: Final = ports.process.name
        self.random: Final[Random] = ports.random
        self.clock: Final = ports.clock
        self._bootstrap: Final = tuple(bootstrap)
        self._lowest_versions: Final = lowest_versions
        self._trace: Final = trace
        self._login: Final = login
        self._connections: Final[dict[tuple[str, int], Connection]] = {}
        self._leaders: Final[dict[TopicPartition, Leader]] = {}
        # The latest known epochs, so that a broker with old metadata does not redirect the client to an earlier leader.
        self._leader_epochs: Final[dict[tuple[UUID | None, int], int]] = {}
        self._eagerness: Final[dict[int, float]] = {}
        self.timeout_seconds = 2.0

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def note(self, what: str) -> None:
        self._trace.major(self.name, what)

    async def back_off(self) -> None:
        await asyncio.sleep(self.random.uniform(0.02, 0.2))

    # ---- connections

    async def connect(self, host: str, port: int) -> Connection:
        """Raises RequestFailed."""
        found = self._connections.get((host, port))
        if found is None or not found.is_open:
            found = await self.open_connection(host, port)
            if self._login is not None:
                await self.log_in(found, self._login)
            self._connections[host, port] = found
        return found

    async def open_connection(self, host: str, port: int) -> Connection:
        """A new one, which nothing else uses, without a login. Raises RequestFailed."""
        return await Connection.open(host, port, client_id=self.name, timeout_seconds=self.timeout_seconds)

    async def log_in(
        self, connection: Connection, login: Login, on_last_message: Callable[[], None] = lambda: None
    ) -> float:
        """For the first time or again: see `authenticate`.

        Raises RequestFailed, and closes the connection unless the broker has rejected the login and closes it.
        """
        try:
            async with asyncio.timeout(self.timeout_seconds):
                return await authenticate(connection, login, self.random, on_last_message)
        except TimeoutError:
            connection.abort()
            raise RequestFailed("no login in time") from None
        except LoginRejected:
            raise
        except RequestFailed:
            connection.abort()
            raise

    def any_address(self) -> tuple[str, int]:
        return self.random.choice(self._bootstrap)

    async def connect_to_any(self) -> Connection:
        return await self.connect(*self.any_address())

    def with_own_connections(self) -> "ClusterClient":
        """The same client with other connections: a broker handles the requests of one connection in order."""
        return ClusterClient(self._ports, self._bootstrap, self._trace, self._lowest_versions, self._login)

    def with_lowest_versions(self, versions: Mapping[int, int]) -> "ClusterClient":
        """The same client with its own connections and these lowest versions by API key."""
        lowest_versions = {**self._lowest_versions, **versions}
        return ClusterClient(self._ports, self._bootstrap, self._trace, lowest_versions, self._login)

    def version(self, connection: Connection, api_key: int) -> Schema:
        """Mostly the newest version, and always the same one for a client and API: other versions have other bugs."""
        low, high = connection.served[api_key]
        low = max(low, self._lowest_versions.get(api_key, low))
        eagerness = self._eagerness.get(api_key)
        if eagerness is None:
            is_newest = self.random.random() < _HIGHEST_PROBABILITY
            eagerness = self._eagerness[api_key] = 1.0 if is_newest else self.random.random()
        return schema(api_key, low + round((high - low) * eagerness))

    async def send_request(
        self, connection: Connection, api_key: int, build: Callable[[Schema], Message], *, extra_seconds: float = 0.0
    ) -> Message:
        """Raises RequestFailed, also after a timeout, which closes the connection."""
        chosen = self.version(connection, api_key)
        response = connection.send_request(chosen, build(chosen))
        return await self.await_response(connection, response, extra_seconds=extra_seconds)

    async def await_response(
        self, connection: Connection, response: asyncio.Future[Message], *, extra_seconds: float = 0.0
    ) -> Message:
        """Raises RequestFailed, also after a timeout, which closes the connection."""
        try:
            async with asyncio.timeout(self.timeout_seconds + extra_seconds):
                return await response
        except TimeoutError:
            connection.abort()
            raise RequestFailed("no response in time") from None

    # ---- metadata

    async def describe(self, topics: Sequence[str], connection: Connection) -> dict[str, Message]:
        """The topics by name, as the broker describes them. Raises RequestFailed."""

        def build(chosen: Schema) -> Message:
            return chosen.new(
                "MetadataRequest",
                topics=tuple(chosen.new("MetadataRequestTopic", topic_id=None, name=name) for name in topics),
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
            )

        response = await self.send_request(connection, ApiKey.METADATA, build)
        brokers = {broker.node_id: broker for broker in response.brokers}
        for topic in response.topics:
            for partition in topic.partitions:
                self._update_leader(topic, partition, brokers.get(partition.leader_id))
        return {topic.name: topic for topic in response.topics}

    def _update_leader(self, topic: Message, partition: Message, broker: Message | None) -> None:
        name = TopicPartition(topic.name, partition.partition_index)
        topic_id, epoch = getattr(topic, "topic_id", None), partition.leader_epoch
        self._leaders.pop(name, None)
        if broker is not None and epoch >= self._leader_epochs.get((topic_id, partition.partition_index), epoch):
            self._leader_epochs[topic_id, partition.partition_index] = epoch
            self._leaders[name] = Leader(broker.host, broker.port, topic_id, epoch)

    async def leader(self, partition: TopicPartition) -> Leader:
        """Raises RequestFailed while the partition has no leader."""
        if partition not in self._leaders:
            await self.describe([partition.topic], await self.connect_to_any())
        found = self._leaders.get(partition)
        if found is None:
            raise RequestFailed(f"{partition} has no leader")
        return found

    async def reach_leader(self, partition: TopicPartition) -> tuple[Leader, Connection]:
        """Raises RequestFailed."""
        leader = await self.leader(partition)
        return leader, await self.connect(leader.host, leader.port)

    def forget_leader(self, partition: TopicPartition) -> None:
        self._leaders.pop(partition, None)

    async def run_periodically(
        self, interval_seconds: float, partition: TopicPartition, action: Callable[[], Awaitable[None]]
    ) -> None:
        """Repeats `action` without end, and looks up the leader again after it raised RequestFailed."""
        while True:
            await asyncio.sleep(self.random.expovariate(1 / interval_seconds))
            try:
                await action()
            except RequestFailed:
                self.forget_leader(partition)


def milliseconds(amount: float) -> timedelta:
    return timedelta(milliseconds=amount)

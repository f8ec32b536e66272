"""A broker for handlers: a real image, real logs in a directory, and a controller that only writes down."""

import asyncio
import inspect
import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import chain, repeat
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.base.ports import Client, Pool
from odradek.base.principal import ANONYMOUS, Principal
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.record_walks import RecordWalks
from odradek.config.dynamic import overlay
from odradek.config.node_config import NodeConfig
from odradek.config.topic_config import TopicConfig
from odradek.core.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    BrokerImage,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from odradek.core.metadata.records import Endpoint
from odradek.core.quotas.node_quotas import unlimited_quotas
from odradek.core.replication.leader import LeaderState
from odradek.core.replication.throttle import ReplicationThrottle
from odradek.core.security.access import UNRESTRICTED, Access
from odradek.host.clock import SystemClock
from odradek.host.disk import HostDisk
from odradek.records.batch import parse_batches
from odradek.server.context import RequestContext
from odradek.server.slices import SliceTurns
from odradek.storage.log.log_dirs import LogDirs, WantedLog
from odradek.storage.log.partition_log import PartitionLog
from odradek.storage.partition.log_dir_threads import LogDirThreads, get_or_create
from odradek.storage.partition.partition import Partition
from odradek.wire.apis import BROKER_APIS, load_handler
from odradek.wire.schemas import schema
from tests import raw_wire
from tests.record_batches import TestRecord, batch

T = TypeVar("T")

NODE_ID = 1
CLUSTER_ID = "abcdefghijklmnopqrstuA"
DIRECTORY_ID = UUID(int=1000)
DIRECTORY_IDS = (DIRECTORY_ID, UUID(int=1001))


def run(response: Any) -> Any:
    """Return a handler's response, and await it if it is deferred."""
    return asyncio.run(_await(response)) if inspect.isawaitable(response) else response


async def _await(response: Any) -> Any:
    return await response


class InlineExecutor:
    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
        return work()


class NotingMoves:
    """Starts no log dir move, and records the requested ones."""

    def __init__(self) -> None:
        self.destinations: dict[TopicPartition, str] = {}
        self.cancelled: list[TopicPartition] = []
        self.error: OSError | None = None

    def destination(self, name: TopicPartition) -> str | None:
        return self.destinations.get(name)

    async def start(self, partition: Partition, destination: str) -> None:
        if self.error is not None:
            raise self.error
        self.destinations[partition.name] = destination

    async def cancel(self, name: TopicPartition) -> None:
        self.cancelled.append(name)
        del self.destinations[name]


class NotingController:
    """Responds to every CreateTopics with the given error, and records the requests."""

    def __init__(self) -> None:
        self.requests: list[tuple[int, int, Any]] = []
        self.clients: list[Client] = []
        self.error = ErrorCode.none

    async def forward(self, client: Client, api_key: int, version: int, request: Any) -> Any:
        self.clients.append(client)
        return await self.handle(api_key, version, request)

    async def handle(self, api_key: int, version: int, request: Any) -> Any:
        self.requests.append((api_key, version, request))
        messages = schema(api_key, version)
        topics = tuple(
            messages.new(
                "CreatableTopicResult",
                name=topic.name,
                topic_id=None,
                error_code=self.error,
                error_message=None,
                num_partitions=1,
                replication_factor=1,
                configs=(),
            )
            for topic in request.topics
        )
        return messages.new("CreateTopicsResponse", throttle_time=timedelta(0), topics=topics)


def broker_image(node_id: int, *, fenced: bool = False, listeners: tuple[str, ...] = ("PLAINTEXT",)) -> BrokerImage:
    endpoints = tuple(
        Endpoint(name=name, host=f"{name.lower()}-{node_id}", port=9000 + node_id, security_protocol=0)
        for name in listeners
    )
    return BrokerImage(
        id=node_id,
        epoch=10,
        incarnation_id=UUID(int=500 + node_id),
        endpoints=endpoints,
        features=(),
        rack=f"rack-{node_id}",
        fenced=fenced,
        in_controlled_shutdown=False,
        directories=DIRECTORY_IDS,
    )


def partition_image(**changes: Any) -> PartitionImage:
    values: dict[str, Any] = {
        "replicas": (NODE_ID,),
        "directories": (DIRECTORY_ID,),
        "isr": (NODE_ID,),
        "leader": NODE_ID,
        "leader_epoch": 0,
        "partition_epoch": 0,
    }
    return PartitionImage(**(values | changes))


def with_followers(partition: Partition, leader_epoch: int, *, min_isr: int) -> LeaderState:
    """Of this broker over an empty log; two others are in sync."""
    return LeaderState(
        broker_id=NODE_ID,
        leader_epoch=leader_epoch,
        partition_epoch=0,
        replicas=(NODE_ID, 2, 3),
        isr=(NODE_ID, 2, 3),
        min_isr=min_isr,
        epoch_start_offset=0,
        log_end_offset=0,
        high_watermark=partition.shared_high_watermark,
        lag_max_seconds=10.0,
        brokers=lambda _: None,
        now=0.0,
    )


class FakeBroker:
    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.directories = (str(directory / "a"), str(directory / "b"))
        base = {
            "process.roles": "broker,controller",
            "node.id": str(NODE_ID),
            "controller.quorum.voters": f"{NODE_ID}@localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "log.dirs": ",".join(self.directories),
        }
        text = "".join(f"{name}={value}\n" for name, value in (base | dict(settings or {})).items())
        self.config = self.static_config = NodeConfig.load(text, "server.properties")
        self.node_id = NODE_ID
        self.cluster_id = CLUSTER_ID
        self.audit = None
        self.clock = SystemClock()
        self.random = random.Random(7)
        self.executor: Any = InlineExecutor()
        self.slice_turns = SliceTurns()
        self.metadata_cache = MetadataCache()
        self.record_walks = RecordWalks(self.executor)
        self.controller = NotingController()
        self.log_dir_moves = NotingMoves()
        self.log_dirs = LogDirs.open(
            HostDisk(),
            self.directories,
            node_id=NODE_ID,
            cluster_id=CLUSTER_ID,
            new_id=chain(DIRECTORY_IDS, repeat(UUID(int=2000))).__next__,
        )
        self.image = ClusterImage(brokers={NODE_ID: broker_image(NODE_ID)})
        self.client_quotas = unlimited_quotas()
        self.leader_throttle = ReplicationThrottle(window_count=11, window_seconds=1.0)
        self.failed_log_dirs: list[tuple[str, OSError]] = []
        self.producer_ids = iter(range(1000))
        self.unreachable: set[int] = set()
        self.access: Access = UNRESTRICTED
        self.checked_configs: list[Mapping[str, str]] = []
        self.transactions: Any = None
        self.groups: Any = None
        self._partitions: dict[tuple[str, int], Partition] = {}

    # what handlers see

    async def check_config(self, stored: Mapping[str, str]) -> None:
        self.checked_configs.append(stored)

    def access_of(self, principal: Principal, host: str) -> Access:
        return self.access

    def partition(self, topic: str, index: int) -> Partition | None:
        return self._partitions.get((topic, index))

    def partitions(self) -> Mapping[tuple[str, int], Partition]:
        return self._partitions

    def is_offline(self, topic: str, index: int) -> bool:
        return False

    def topic_config(self, topic: str) -> TopicConfig:
        return self.config.topic_defaults.with_overrides(self.image.topic_config(topic))

    def fail_log_dir(self, directory: str, error: OSError) -> None:
        self.failed_log_dirs.append((directory, error))

    def unreachable_leaders(self) -> Collection[int]:
        return self.unreachable

    async def next_producer_id(self) -> int:
        return next(self.producer_ids)

    # what tests arrange

    def set_brokers(self, *brokers: BrokerImage) -> None:
        self.image = replace(self.image, brokers={one.id: one for one in brokers})

    def set_configs(self, kind: int, name: str, configs: Mapping[str, str]) -> None:
        self.image = replace(self.image, configs=self.image.configs.with_changes({(kind, name): configs}))
        if kind == RESOURCE_BROKER:
            self.config = overlay(
                self.static_config, self.image.broker_config(NODE_ID), self.image.default_broker_config()
            )

    def add_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        configs: Mapping[str, str] | None = None,
        state: PartitionImage | None = None,
        held: bool = True,
    ) -> TopicImage:
        image = partition_image() if state is None else state
        topic = TopicImage(
            name, UUID(int=10_000 + len(self.image.topics_by_name)), dict.fromkeys(range(partitions), image)
        )
        self.image = replace(
            self.image,
            topics_by_name=self.image.topics_by_name.with_changes({name: topic}),
            topics_by_id=self.image.topics_by_id.with_changes({topic.id: topic}),
        )
        if configs:
            self.set_configs(RESOURCE_TOPIC, name, configs)
        for index in range(partitions) if held else ():
            self._hold(topic, index, image)
        return topic

    def _hold(self, topic: TopicImage, index: int, state: PartitionImage) -> None:
        name = TopicPartition(topic.name, index)
        wanted = WantedLog(name, topic.id, self.topic_config(topic.name), state.directories[0])
        (log,) = run(get_or_create(self.log_dirs, [wanted], now_ms=self.clock.wall_ms(), threads_of=self.threads_of))
        assert isinstance(log, PartitionLog), log
        partition = Partition(
            name,
            topic.id,
            log,
            threads=LogDirThreads(self.log_dirs.dir_of(log), self.executor),
            clock=self.clock,
            on_disk_failure=self.fail_log_dir,
        )
        if state.leader == NODE_ID:
            partition.become_leader(NODE_ID, state.leader_epoch)
        else:
            partition.become_leaderless(state.leader_epoch)
        self._partitions[(topic.name, index)] = partition

    def threads_of(self, log_dir: str) -> LogDirThreads:
        return LogDirThreads(log_dir, self.executor)

    def forget(self, topic: str, index: int) -> None:
        """The log stays, the partition goes."""
        del self._partitions[(topic, index)]

    def append(self, topic: str, *records: TestRecord, index: int = 0, **header: Any) -> None:
        data = bytearray(batch(*records, **header))
        partition, (one,) = self._partitions[(topic, index)], parse_batches(data)
        verification = None
        if one.is_transactional:
            verification = partition.log.producers.begin_verification(
                one.producer_id, one.producer_epoch, one.base_sequence, epochs_rise=False, now_ms=1
            )
        partition.append(memoryview(data), [one], 1, verification=verification)

    # requests of the tests

    def request(
        self,
        api_key: int,
        version: int,
        *,
        listener: str = "PLAINTEXT",
        principal: Principal = ANONYMOUS,
        security_protocol: str = "PLAINTEXT",
        **fields: Any,
    ) -> Any:
        """Return the response as a client reads it: written and read in this version's format."""
        messages = schema(api_key, version)
        request = raw_wire.build(messages.request_type, fields)
        context = RequestContext(api_key, version, "test", listener, "127.0.0.1", messages)._replace(
            principal=principal, access=self.access, security_protocol=security_protocol
        )
        response = run(load_handler(BROKER_APIS[api_key]).handle(request, context, self))
        written = b"".join(response) if isinstance(response, list) else response
        if not isinstance(written, bytes):
            written = messages.write(response)
        read, size = messages.read_response(written, 0)
        assert size == len(written)
        return read

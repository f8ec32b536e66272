"""A quorum of one node on real files, with a manual clock and an executor whose syncs can be counted or fail."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from odradek.base.ports import Pool
from odradek.config.node_config import NodeConfig
from odradek.core.metadata.features import SUPPORTED_FEATURES
from odradek.host.disk import HostDisk
from odradek.node.controller_node import ControllerNode
from odradek.quorum.format import FormatRequest, format_directories
from odradek.quorum.quorum import Quorum
from odradek.server.context import RequestContext
from odradek.storage.log.log_dir_health import LogDirHealth
from odradek.storage.log.meta_properties import read_meta_properties
from odradek.wire.apis import CONTROLLER_APIS, ApiKey, load_handler
from odradek.wire.schemas import schema

T = TypeVar("T")
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"


class StillClock:
    """Wall time is fixed; monotonic time passes."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic(self) -> float:
        return time.monotonic()


class LoopExecutor:
    """Runs the work on the event loop, after other callbacks."""

    def __init__(self) -> None:
        self.runs = 0
        self.before: Callable[[], None] = lambda: None
        # The pools whose threads are all busy, forever.
        self.busy: set[Pool] = set()

    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
        await asyncio.sleep(0)
        if lane is None and pool in self.busy:
            await asyncio.get_running_loop().create_future()
        self.runs += 1
        self.before()
        return work()


class Host:
    """The directory and its configuration; `open` returns a running quorum."""

    def __init__(self, directory: Path, *, is_standalone: bool = True, **settings: str) -> None:
        self.directory = directory / "data"
        self.metadata = self.directory / "__cluster_metadata-0"
        self.disk = HostDisk()
        self.clock = StillClock()
        self.executor = LoopExecutor()
        self.random = Random(3)
        quorum = (
            "controller.quorum.bootstrap.servers=127.0.0.1:9093"
            if is_standalone
            else "controller.quorum.voters=1@127.0.0.1:9093"
        )
        lines = [
            "process.roles=broker,controller",
            "node.id=1",
            "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "controller.listener.names=CONTROLLER",
            quorum,
            f"log.dirs={self.directory}",
            *(f"{key.replace('_', '.')}={value}" for key, value in settings.items()),
        ]
        self.config = NodeConfig.load("\n".join(lines), "test")
        if not self.directory.exists():
            request = FormatRequest(cluster_id=CLUSTER_ID, is_standalone=is_standalone)
            format_directories(self.disk, self.config, request, random=self.random, now_ms=self.clock.now_ms)
        meta = read_meta_properties(self.disk, str(self.directory))
        assert meta is not None
        self.directory_id = meta.directory_id

    async def open(self) -> Quorum:
        """Returns once the controller is active and has applied the bootstrap records."""
        assert self.directory_id is not None
        quorum = await Quorum.open(
            self.config,
            cluster_id=CLUSTER_ID,
            directory_id=self.directory_id,
            endpoints=self.config.advertised_controller_listeners,
            disk=self.disk,
            clock=self.clock,
            random=self.random,
            executor=self.executor,
            health=LogDirHealth(),
        )
        active = asyncio.get_running_loop().create_future()
        quorum.controller.on_activation(lambda controller: active.done() or active.set_result(None))
        quorum.start()
        await asyncio.wait([active, quorum.failed], return_when=asyncio.FIRST_COMPLETED)
        await quorum.loader.wait_until_applied(quorum.driver.log_end_offset - 1)
        return quorum

    def run(self, scenario: Callable[[Quorum], Awaitable[T]]) -> T:
        async def main() -> T:
            return await scenario(await self.open())

        return asyncio.run(main())


async def handle(quorum: Quorum, api_key: ApiKey, version: int, request: Any) -> Any:
    """Returns once the change is committed and applied to the image, as a broker in the same process sees it."""
    context = RequestContext(api_key, version, "test", "CONTROLLER", "127.0.0.1", schema(api_key, version))
    node = ControllerNode(quorum._config, quorum, cluster_id=CLUSTER_ID, clock=StillClock(), executor=LoopExecutor())
    response = await load_handler(CONTROLLER_APIS[api_key]).handle(request, context, node)
    await quorum.loader.wait_until_applied(quorum.driver.high_watermark - 1)
    return response


async def register(quorum: Quorum, directory_id: UUID | None, incarnation: int = 1, **others: Any) -> int:
    messages = schema(ApiKey.BROKER_REGISTRATION, 4)
    request = messages.new(
        "BrokerRegistrationRequest",
        broker_id=1,
        cluster_id=CLUSTER_ID,
        incarnation_id=UUID(int=incarnation),
        listeners=(messages.new("Listener", name="PLAINTEXT", host="127.0.0.1", port=9092, security_protocol=0),),
        features=tuple(
            messages.new("Feature", name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in SUPPORTED_FEATURES.items()
        ),
        rack=None,
        is_migrating_zk_broker=False,
        log_dirs=(directory_id,),
        **{"previous_broker_epoch": -1, **others},
    )
    response = await handle(quorum, ApiKey.BROKER_REGISTRATION, 4, request)
    assert response.error_code == 0
    heartbeat = schema(ApiKey.BROKER_HEARTBEAT, 1).new(
        "BrokerHeartbeatRequest",
        broker_id=1,
        broker_epoch=response.broker_epoch,
        current_metadata_offset=quorum.image.offset,
        want_fence=False,
        want_shut_down=False,
        offline_log_dirs=(),
    )
    assert not (await handle(quorum, ApiKey.BROKER_HEARTBEAT, 1, heartbeat)).is_fenced
    epoch: int = response.broker_epoch
    return epoch


async def create_topics(quorum: Quorum, *names: str, partitions: int = 1, version: int = 7) -> Any:
    messages = schema(ApiKey.CREATE_TOPICS, version)
    request = messages.new(
        "CreateTopicsRequest",
        topics=tuple(
            messages.new(
                "CreatableTopic",
                name=name,
                num_partitions=partitions,
                replication_factor=1,
                assignments=(),
                configs=(),
            )
            for name in names
        ),
        timeout=timedelta(seconds=1),
        validate_only=False,
    )
    return await handle(quorum, ApiKey.CREATE_TOPICS, version, request)

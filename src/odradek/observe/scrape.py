"""A scrape: reads the node on its event loop, a few partitions at a time, and renders the text in a thread."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final

from odradek.base.ports import Executor
from odradek.core.metadata.image import ClusterImage
from odradek.instruments.traffic import TrafficSums
from odradek.observe.authentication_readings import authentication_families
from odradek.observe.broker_readings import (
    PartitionReading,
    log_dir_families,
    partition_families,
    purgatory_families,
    read_partition,
    replica_families,
    session_families,
    traffic_families,
)
from odradek.observe.cluster_readings import controller_families, metadata_families
from odradek.observe.families import NO_LABELS, Family, Kind, attribute, meter, own, own_summary, value
from odradek.observe.request_readings import request_families
from odradek.observe.view import BrokerView, NodeView

PARTITIONS_PER_SLICE: Final = 100
"""Read before other work runs."""
LANE: Final = "metrics"

Source = Callable[[], Awaitable[Iterable[Family]]]


class Scrape:
    """Runs one scrape at a time. Requests during a scrape share the next one, so that no response is stale."""

    def __init__(self, node: NodeView, executor: Executor, sources: Iterable[Source]) -> None:
        """`sources` provide further families. They are called on the event loop."""
        self._node: Final = node
        self._executor: Final = executor
        self._sources: Final = sources
        self._lock: Final = asyncio.Lock()
        self._next: asyncio.Task[bytes] | None = None

    async def text(self) -> bytes:
        if self._next is None:
            self._next = asyncio.ensure_future(self._run_next())
        # Shielded: a client that disconnects does not cancel the scrape of the others.
        return await asyncio.shield(self._next)

    async def _run_next(self) -> bytes:
        async with self._lock:
            # Later requests need a later scrape.
            self._next = None
            return await self._run()

    async def _run(self) -> bytes:
        node = self._node
        broker = node.broker
        readings, traffic = ([], None) if broker is None else await _read_partitions(broker)
        on_loop = self._read_node()
        for source in self._sources:
            on_loop += await source()
        if broker is not None and traffic is not None:
            on_loop += _read_broker(broker, traffic)
        image, node_id, is_active = node.image, node.node_id, node.is_active_controller
        is_controller, elections = node.is_controller, node.elections
        offline, isr = (0, None) if broker is None else (broker.offline_partitions(), broker.isr_counts)

        def families() -> Iterator[Family]:
            yield from on_loop
            if isr is not None:
                reassigning = _count_reassigning(image, node_id)
                yield from replica_families(readings, offline=offline, reassigning=reassigning, isr=isr)
                yield from purgatory_families(readings)
                yield from partition_families(readings)
            if is_controller:
                yield from controller_families(image, elections, is_active=is_active)

        def render() -> bytes:
            from odradek.observe.exposition import render

            return render(families())

        return await self._executor.run(render, lane=LANE)

    def _read_node(self) -> list[Family]:
        node = self._node
        watch = node.loop_watch
        families = [
            *request_families(node.meters),
            # The event loop is the request handler; the rules expose the MBean's count, which is in nanoseconds.
            meter(
                "kafka.server",
                "KafkaRequestHandlerPool",
                "RequestHandlerAvgIdlePercent",
                [(NO_LABELS, watch.idle_seconds * 1e9)],
            ),
            value("kafka.network", "SocketServer", "NetworkProcessorAvgIdlePercent", watch.idle_ratio),
            value("kafka.server", "KafkaServer", "BrokerState", node.broker_state),
            own_summary("event_loop_stall_seconds", "Delay of due callbacks on the event loop", watch.stalls),
            own(
                "event_loop_stall_seconds_max",
                "Longest event loop stall in the last one to two minutes",
                Kind.GAUGE,
                [(NO_LABELS, watch.longest_seconds)],
            ),
            attribute(
                "socket-server-metrics",
                "connection-count",
                (({"listener": name}, count) for name, count in node.connections().items()),
            ),
            *authentication_families(node.authentications()),
            own(
                "certificate_expiry_timestamp_seconds",
                "When the first certificate of a listener's chain expires",
                Kind.GAUGE,
                (({"listener": name}, expiry_ms / 1000) for name, expiry_ms in node.certificate_expiries_ms().items()),
            ),
            own(
                "ready",
                "1 if the node serves clients, else 0",
                Kind.GAUGE,
                [(NO_LABELS, int(node.why_not_ready() is None))],
            ),
        ]
        quorum = node.quorum
        if quorum is not None:
            families += metadata_families(
                node.image, leader_id=quorum.leader_id, epoch=quorum.epoch, log_end_offset=quorum.log_end_offset
            )
        return families


async def _read_partitions(broker: BrokerView) -> tuple[list[PartitionReading], TrafficSums]:
    """A reading of every partition, and the traffic sums of the topics."""
    readings: list[PartitionReading] = []
    partitions = list(broker.partitions().values())
    sums = broker.traffic.start_sums(partition.name.topic for partition in partitions)
    for start in range(0, len(partitions), PARTITIONS_PER_SLICE):
        for partition in partitions[start : start + PARTITIONS_PER_SLICE]:
            if partition.unavailable is None:
                readings.append(read_partition(partition))
            partition.count_messages()
            sums.add(partition.name.topic, partition.traffic)
        await asyncio.sleep(0)
    return readings, sums


def _read_broker(broker: BrokerView, traffic: TrafficSums) -> list[Family]:
    sessions = list(broker.fetch_sessions)
    return [
        *traffic_families(traffic.total(), traffic.topics),
        *log_dir_families(broker.log_dirs.online, broker.log_dirs.offline),
        *session_families(len(sessions), sum(len(session.targets) for session in sessions)),
    ]


def _count_reassigning(image: ClusterImage, node_id: int) -> int:
    """The number of partitions under reassignment that this broker leads."""
    return sum(
        one.leader == node_id and one.is_reassigned
        for topic in image.topics_by_name.values()
        for one in topic.partitions.values()
    )

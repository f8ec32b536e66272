"""Metrics of a broker: traffic, partitions, log dirs and replicas.

Partitions change during a scrape: a `PartitionReading` is a consistent snapshot of one, taken on the event loop. The
families are built from readings, in any thread.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from odradek.instruments.replication import IsrCounts
from odradek.instruments.traffic import Traffic
from odradek.observe.families import Family, Labels, gauge, meter, value
from odradek.storage.partition.partition import Partition

_SERVER: Final = "kafka.server"
_TOPICS: Final = "BrokerTopicMetrics"
_REPLICAS: Final = "ReplicaManager"

_OF_TOPICS: Final[Mapping[str, Callable[[Traffic], int]]] = {
    "BytesInPerSec": attrgetter("bytes_in"),
    "BytesOutPerSec": attrgetter("bytes_out"),
    "MessagesInPerSec": attrgetter("messages_in"),
    "TotalProduceRequestsPerSec": lambda traffic: traffic.appends + traffic.rejected_appends,
    "TotalFetchRequestsPerSec": attrgetter("fetches"),
    "FailedProduceRequestsPerSec": attrgetter("failed_appends"),
    "FailedFetchRequestsPerSec": attrgetter("failed_fetches"),
    "BytesRejectedPerSec": attrgetter("bytes_rejected"),
}
_OF_BROKERS: Final[Mapping[str, Callable[[Traffic], int]]] = {
    "ReplicationBytesInPerSec": attrgetter("replication_bytes_in"),
    "ReplicationBytesOutPerSec": attrgetter("replication_bytes_out"),
}


class PartitionReading(NamedTuple):
    labels: Labels
    is_leader: bool
    replicas: int
    in_sync: int
    min_in_sync: int
    last_stable_lag: int
    lag: int
    """Of a follower: the number of committed records that it has not fetched."""
    start_offset: int
    end_offset: int
    size_bytes: int
    segments: int
    retention_bytes: int
    producers: int
    waiting_writers: int
    waiting_readers: int

    @property
    def is_under_replicated(self) -> bool:
        return self.is_leader and self.in_sync < self.replicas

    @property
    def is_under_min_in_sync(self) -> bool:
        return self.is_leader and self.in_sync < self.min_in_sync

    @property
    def is_at_min_in_sync(self) -> bool:
        return self.is_leader and self.in_sync == self.min_in_sync


def read_partition(partition: Partition) -> PartitionReading:
    log, replication, following = partition.log, partition.leader_state, partition.follower_state
    config = log.config
    end = log.log_end_offset
    replicas = 1 if replication is None else len(replication.followers) + 1
    lag = 0 if following is None else max(0, following.leader_high_watermark - end)
    return PartitionReading(
        # Shared by all samples of the partition: there are thousands of partitions.
        labels={"topic": partition.name.topic, "partition": str(partition.name.partition)},
        is_leader=partition.is_leader,
        replicas=replicas if partition.is_leader else 0,
        in_sync=0 if not partition.is_leader else 1 if replication is None else len(replication.isr),
        # The ISR cannot be larger than the replica set.
        min_in_sync=min(config.min_insync_replicas, replicas),
        last_stable_lag=partition.high_watermark - partition.last_stable_offset,
        lag=lag,
        start_offset=log.log_start_offset,
        end_offset=end,
        size_bytes=log.size_bytes,
        segments=len(log.segments),
        retention_bytes=config.retention_bytes,
        producers=len(log.producers.producers),
        waiting_writers=partition.pending_commits,
        waiting_readers=len(partition.watchers) + len(partition.end_watchers),
    )


def traffic_families(total: Traffic, topics: Mapping[str, Traffic]) -> list[Family]:
    families = [
        meter(
            _SERVER,
            _TOPICS,
            name,
            [({}, read(total)), *(({"topic": topic}, read(traffic)) for topic, traffic in sorted(topics.items()))],
        )
        for name, read in _OF_TOPICS.items()
    ]
    return families + [meter(_SERVER, _TOPICS, name, [({}, read(total))]) for name, read in _OF_BROKERS.items()]


_OF_PARTITIONS: Final[Mapping[str, Callable[[PartitionReading], float]]] = {
    "UnderReplicated": attrgetter("is_under_replicated"),
    "UnderMinIsr": attrgetter("is_under_min_in_sync"),
    "AtMinIsr": attrgetter("is_at_min_in_sync"),
    "InSyncReplicasCount": attrgetter("in_sync"),
    "ReplicasCount": attrgetter("replicas"),
    "LastStableOffsetLag": attrgetter("last_stable_lag"),
}
_OF_LOGS: Final[Mapping[str, Callable[[PartitionReading], float]]] = {
    "LogStartOffset": attrgetter("start_offset"),
    "LogEndOffset": attrgetter("end_offset"),
    "Size": attrgetter("size_bytes"),
    "NumLogSegments": attrgetter("segments"),
}


def partition_families(readings: Sequence[PartitionReading]) -> Iterator[Family]:
    """Replication and log metrics of each partition. Lazy, since each family is large."""
    for name, read in _OF_PARTITIONS.items():
        yield gauge("kafka.cluster", "Partition", name, ((one.labels, read(one)) for one in readings))
    for name, read in _OF_LOGS.items():
        yield gauge("kafka.log", "Log", name, ((one.labels, read(one)) for one in readings))
    retained = (one for one in readings if one.retention_bytes > 0)
    used = ((one.labels, 100 * one.size_bytes / one.retention_bytes) for one in retained)
    yield gauge("kafka.log", "Log", "RetentionSizeInPercent", used)


def replica_families(
    readings: Sequence[PartitionReading], *, offline: int, reassigning: int, isr: IsrCounts
) -> list[Family]:
    def count(name: str, number: float) -> Family:
        return value(_SERVER, _REPLICAS, name, number)

    return [
        count("PartitionCount", len(readings)),
        count("LeaderCount", sum(one.is_leader for one in readings)),
        count("UnderReplicatedPartitions", sum(one.is_under_replicated for one in readings)),
        count("UnderMinIsrPartitionCount", sum(one.is_under_min_in_sync for one in readings)),
        count("AtMinIsrPartitionCount", sum(one.is_at_min_in_sync for one in readings)),
        count("OfflineReplicaCount", offline),
        count("ReassigningPartitions", reassigning),
        count("ProducerIdCount", sum(one.producers for one in readings)),
        *(
            meter(_SERVER, _REPLICAS, name, [({}, number)])
            for name, number in (
                ("IsrShrinksPerSec", isr.shrinks),
                ("IsrExpandsPerSec", isr.expands),
                ("FailedIsrUpdatesPerSec", isr.failed_updates),
            )
        ),
        gauge(
            _SERVER,
            "ReplicaFetcherManager",
            "MaxLag",
            [({"clientId": "Replica"}, max((one.lag for one in readings), default=0))],
        ),
    ]


def purgatory_families(readings: Sequence[PartitionReading]) -> list[Family]:
    """A request that waits for several partitions counts for each, as in Kafka."""
    waiting = {
        "Produce": sum(one.waiting_writers for one in readings),
        "Fetch": sum(one.waiting_readers for one in readings),
    }
    return [
        gauge(
            _SERVER,
            "DelayedOperationPurgatory",
            "PurgatorySize",
            (({"delayedOperation": operation}, number) for operation, number in waiting.items()),
        )
    ]


def log_dir_families(online: Iterable[str], offline: Iterable[str]) -> list[Family]:
    failed = list(offline)
    states = [*((one, 0) for one in online), *((one, 1) for one in failed)]
    return [
        value("kafka.log", "LogManager", "OfflineLogDirectoryCount", len(failed)),
        gauge(
            "kafka.log",
            "LogManager",
            "LogDirectoryOffline",
            (({"logDirectory": directory}, state) for directory, state in states),
        ),
    ]


def session_families(sessions: int, partitions: int) -> list[Family]:
    return [
        value(_SERVER, "FetchSessionCache", "NumIncrementalFetchSessions", sessions),
        value(_SERVER, "FetchSessionCache", "NumIncrementalFetchPartitionsCached", partitions),
    ]

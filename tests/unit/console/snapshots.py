"""Builds `ClusterSnapshot` objects of invented clusters for tests of the console's readings."""

from collections.abc import Mapping
from typing import Any

from odradek.client.address import Address
from odradek.client.disks import LogDir
from odradek.client.layout import PartitionLayout, TopicLayout
from odradek.client.membership import Member
from odradek.console.readings.snapshot import ClusterSnapshot


def member(broker: int, *, is_fenced: bool = False, rack: str | None = None) -> Member:
    return Member(id=broker, address=Address("host", 9092 + broker), rack=rack, is_fenced=is_fenced)


def partition(
    number: int, replicas: tuple[int, ...], isr: tuple[int, ...] | None = None, leader: int | None = None
) -> PartitionLayout:
    """By default all replicas are in sync and the first one leads."""
    return PartitionLayout(
        id=number,
        leader=replicas[0] if leader is None else leader,
        leader_epoch=1,
        replicas=replicas,
        isr=replicas if isr is None else isr,
        offline=(),
    )


def topic(name: str, *partitions: PartitionLayout, is_internal: bool = False) -> TopicLayout:
    return TopicLayout(name=name, id=None, is_internal=is_internal, partitions=partitions)


def snapshot(*topics: TopicLayout, brokers: int = 3, down: tuple[int, ...] = (), **more: Any) -> ClusterSnapshot:
    members: Mapping[int, Member] = {one: member(one, is_fenced=one in down) for one in range(1, brokers + 1)}
    return ClusterSnapshot(
        at_ms=1_000_000,
        cluster_id="cluster",
        members=members,
        reachable=frozenset(members) - frozenset(down),
        topics={one.name: one for one in topics},
        **more,
    )


def log_dir(**sizes: int) -> LogDir:
    """Sizes in bytes by partition name: `orders_0=100`."""
    from odradek.base.ids import TopicPartition

    found = {}
    for name, size in sizes.items():
        topic_name, _, number = name.rpartition("_")
        found[TopicPartition(topic_name, int(number))] = size
    return LogDir(path="/data", has_failed=False, sizes=found, total_bytes=1000, usable_bytes=600)

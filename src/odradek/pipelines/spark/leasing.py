"""The driver requests leases for a query's ranges and passes them to the tasks."""

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Final

from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.client.leases import Lease, LeaseClient, LeaseCredentials, NoLease
from odradek.pipelines.spark.options import ReadOptions
from odradek.pipelines.spark.planning import OffsetRange, split_ranges
from odradek.pipelines.spark.tasks import ReadTask

_log = logging.getLogger(__name__)

# Fetching fewer records is faster than requesting a lease.
LEASED_OFFSETS_MIN: Final = 10_000

Leases = Mapping[TopicPartition, Lease]


def request_leases(
    cluster: Cluster, credentials: LeaseCredentials | None, ranges: Sequence[OffsetRange], *, read_committed: bool
) -> Leases:
    """Request leases. Ranges without a lease are fetched from brokers, and the reason is logged."""
    found: dict[TopicPartition, Lease] = {}
    if credentials is None:
        return found
    leases = LeaseClient(cluster, credentials)
    for one in ranges:
        if one.size < LEASED_OFFSETS_MIN:
            continue
        try:
            held = leases.request(
                one.partition, start=one.start, end=one.end, read_committed=read_committed, topic_id=one.topic_id
            )
        except NoLease as error:
            _log.warning("Reading from brokers instead of segment files: %s", error)
            continue
        if held is not None:
            found[one.partition] = held
    return found


def read_tasks(options: ReadOptions, ranges: Sequence[OffsetRange], held: Leases) -> list[ReadTask]:
    pieces = split_ranges(
        ranges,
        tasks_min=options.tasks_min,
        records_max=options.records_per_task_max,
        cores=os.cpu_count() or 1,
        edges={partition: one.edges for partition, one in held.items()},
    )
    return [
        ReadTask(piece, None if piece.partition not in held else held[piece.partition].part(piece.start, piece.end))
        for piece in pieces
    ]

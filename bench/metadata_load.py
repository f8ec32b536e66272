"""Measures what a node does with a snapshot, in its own process, and prints JSON.

It loads the snapshot as at a node's start, with the garbage collector disabled, applies successive changes of one
topic, builds the active controller's index, and writes a snapshot.
"""

import gc
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar
from uuid import UUID

from bench.metadata_cluster import BROKERS, topic_records
from odradek.core.controller.index import ClusterIndex
from odradek.core.metadata.apply import apply
from odradek.core.metadata.image import ClusterImage
from odradek.core.metadata.records import MetadataRecord, PartitionChangeRecord
from odradek.core.metadata.snapshot import SnapshotId, decode_snapshot
from odradek.core.metadata.snapshot_file import write_snapshot_file
from odradek.host.disk import HostDisk

T = TypeVar("T")

CHANGES = 200
NEW_PARTITIONS = 10
SNAPSHOT = SnapshotId(end_offset=10_000_000, epoch=7)


def main(path: str) -> None:
    disk = HostDisk()
    random = Random(1)
    gc.disable()
    before_mb = _peak_mb()
    processor_before = time.process_time()
    seconds, image = _measure_time(lambda: decode_snapshot(disk.read_bytes(path)).image(SNAPSHOT))
    processor_seconds = time.process_time() - processor_before
    loaded_mb = _peak_mb()
    gc.freeze()
    gc.enable()
    index_seconds, _ = _measure_time(lambda: ClusterIndex(image))
    directories = [broker.directories[0] for broker in image.brokers.values()]
    image, created_ms = _changes(image, lambda number: _new_topic(number, random, directories))
    topic_ids = list(image.topics_by_id)
    image, changed_ms = _changes(image, lambda _: [_leader_change(topic_ids, random)])
    indexed_mb = _peak_mb()
    write_seconds, written_bytes = _measure_time(lambda: write_snapshot_file(disk, f"{path}.written", image, now_ms=0))
    print(
        json.dumps(
            {
                "load_s": seconds,
                "load_processor_s": processor_seconds,
                "peak_mb": loaded_mb,
                "start_mb": before_mb,
                "index_s": index_seconds,
                "create_topic_ms": statistics.median(created_ms),
                "create_topic_worst_ms": max(created_ms),
                "leader_change_ms": statistics.median(changed_ms),
                "leader_change_worst_ms": max(changed_ms),
                "write_s": write_seconds,
                "write_more_mb": _peak_mb() - indexed_mb,
                "snapshot_bytes": written_bytes,
            }
        )
    )


def _measure_time(work: Callable[[], T]) -> tuple[float, T]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def _changes(
    image: ClusterImage, change: Callable[[int], Sequence[MetadataRecord]]
) -> tuple[ClusterImage, list[float]]:
    """Milliseconds per change, for applying its records to the image."""
    milliseconds = []
    for number in range(CHANGES):
        records = change(number)
        began = time.perf_counter()
        image, _ = apply(image, records, offset=image.offset + len(records), epoch=7)
        milliseconds.append((time.perf_counter() - began) * 1000)
    return image, milliseconds


def _new_topic(number: int, random: Random, directories: list[UUID]) -> list[MetadataRecord]:
    return list(topic_records(f"new-{number}", NEW_PARTITIONS, random, directories))


def _leader_change(topic_ids: list[UUID], random: Random) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=random.choice(topic_ids), leader=random.randrange(BROKERS))


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


if __name__ == "__main__":
    main(sys.argv[1])

"""What one change costs does not depend on how large the cluster is, and a large one is read back as it was written."""

import gc
import statistics
import time
from functools import cache
from pathlib import Path
from random import Random

import pytest

from bench.metadata_cluster import cluster_records, topic_records
from odradek.core.controller.index import ClusterIndex
from odradek.core.metadata.apply import apply
from odradek.core.metadata.image import EMPTY_IMAGE, ClusterImage
from odradek.core.metadata.records import MetadataRecord, PartitionChangeRecord
from odradek.core.metadata.snapshot import SnapshotId, decode_snapshot, snapshot_of
from odradek.core.metadata.snapshot_file import write_snapshot_file
from odradek.host.disk import HostDisk

SMALL, LARGE = 1_000, 20_000
CHANGES = 100
SNAPSHOT = SnapshotId(end_offset=100_000, epoch=3)


@cache
def image_of(partitions: int) -> ClusterImage:
    image, _ = apply(EMPTY_IMAGE, cluster_records(partitions), offset=SNAPSHOT.end_offset - 1, epoch=SNAPSHOT.epoch)
    return image


def milliseconds_per_change(image: ClusterImage, change: str) -> float:
    """The median, so that other load does not matter."""
    random = Random(1)
    directories = [broker.directories[0] for broker in image.brokers.values()]
    topic_ids = sorted(image.topics_by_id, key=lambda topic_id: topic_id.int)
    found = []
    for number in range(CHANGES):
        records: list[MetadataRecord]
        if change == "topic":
            records = list(topic_records(f"new-{number}", 10, random, directories))
        else:
            topic = image.topics_by_id[random.choice(topic_ids)]
            replicas = topic.partitions[0].replicas
            leader = replicas[number % len(replicas)]
            records = [PartitionChangeRecord(partition_id=0, topic_id=topic.id, leader=leader)]
        began = time.perf_counter()
        image, _ = apply(image, records, offset=image.offset + len(records), epoch=3)
        found.append((time.perf_counter() - began) * 1000)
    return statistics.median(found)


@pytest.mark.parametrize("change", ["topic", "leader"])
def test_cost_of_one_change_does_not_depend_on_the_cluster_size(change: str) -> None:
    small, large = image_of(SMALL), image_of(LARGE)
    gc.collect()
    costs = [(milliseconds_per_change(small, change), milliseconds_per_change(large, change)) for _ in range(5)]
    in_small, in_large = min(costs, key=lambda pair: pair[1] / pair[0])
    print(f"one change of a {change}: {in_small:.3f} ms among {SMALL:,}, {in_large:.3f} ms among {LARGE:,} partitions")
    # Twenty times the cluster: a walk over it would show.
    assert in_large < 4 * in_small + 0.05
    assert in_large < 10


def test_snapshot_written_in_pieces_equals_the_whole(tmp_path: Path) -> None:
    image = image_of(LARGE)
    path = str(tmp_path / SNAPSHOT.file_name)
    size = write_snapshot_file(HostDisk(), path, image, now_ms=5)
    data = Path(path).read_bytes()
    assert len(data) == size
    assert data == snapshot_of(image, now_ms=5)
    assert [file.name for file in tmp_path.iterdir()] == [SNAPSHOT.file_name]
    again = decode_snapshot(data).image(SNAPSHOT)
    assert dict(again.topics_by_id) == dict(image.topics_by_id)
    assert again.brokers == image.brokers


def test_image_from_a_snapshot_shares_equal_parts() -> None:
    image = decode_snapshot(snapshot_of(image_of(SMALL), now_ms=5)).image(SNAPSHOT)
    partitions = [partition for topic in image.topics_by_id.values() for partition in topic.partitions.values()]
    assert all(partition.isr is partition.replicas for partition in partitions)
    by_value: dict[tuple[int, ...], set[int]] = {}
    for partition in partitions:
        by_value.setdefault(partition.replicas, set()).add(id(partition.replicas))
    assert all(len(objects) == 1 for objects in by_value.values())


def test_index_equals_a_walk_over_all_partitions() -> None:
    image = image_of(SMALL)
    index = ClusterIndex(image)
    for broker_id in image.brokers:
        expected = {
            topic.id
            for topic in image.topics_by_id.values()
            if any(broker_id in partition.isr for partition in topic.partitions.values())
        }
        assert set(index.topics_with_broker_in_isr(broker_id)) == expected
    assert index.topics_without_leader() == ()

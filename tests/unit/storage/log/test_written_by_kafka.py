"""Files written by Apache Kafka 4.3.1: two partitions after a clean shutdown and after a kill.

`plain` has batches of a simple producer with rolls by time, `mixed` has batches of an idempotent producer (gzip) and of
two transactional ones. Both topics had index.interval.bytes=200, segment.index.bytes=480, segment.ms=10000.
"""

import os
import shutil
import tarfile
from pathlib import Path

import pytest

from odradek.base.ids import TopicPartition
from odradek.host.disk import HostDisk
from odradek.records.batch import BatchHeader
from odradek.records.decode import decode_batch
from odradek.storage.log.partition_log import PartitionLog
from odradek.storage.log.segment import Segment
from tests.unit.storage.log.log_support import config, read_all

# Shortly after the markers were written: no producer ID has expired.
NOW_MS = 1_794_775_000_000
CONFIG = config(index_interval_bytes=200, segment_index_bytes=480, segment_ms=10_000)
TOPICS = ("plain", "mixed")


@pytest.fixture
def kafka(tmp_path: Path) -> Path:
    with tarfile.open(Path(__file__).with_name("written_by_kafka.tar.gz")) as archive:
        # Python 3.11.2, which Debian 12 has, does not know the argument `filter`.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path / "kafka")
    return tmp_path / "kafka"


def files(directory: Path) -> dict[str, bytes]:
    return {name: (directory / name).read_bytes() for name in sorted(os.listdir(directory))}


def open_log(directory: Path, topic: str, *, clean: bool) -> PartitionLog:
    return PartitionLog.open(
        HostDisk(),
        str(directory),
        topic_partition=TopicPartition(topic, 0),
        topic_id=None,
        config=CONFIG,
        had_clean_shutdown=clean,
        now_ms=NOW_MS,
    )


def batches(directory: Path) -> list[tuple[BatchHeader, bytes]]:
    found = []
    for path in sorted(directory.glob("*.log")):
        segment = Segment.open(HostDisk(), str(directory), int(path.stem), CONFIG, now_ms=NOW_MS)
        found += [(header, bytes(data)) for _, header, data in segment.batches()]
    return found


def observed(log: PartitionLog) -> tuple[object, ...]:
    producers = {
        producer.producer_id: (
            producer.epoch,
            producer.last_sequence,
            producer.last_offset,
            producer.coordinator_epoch,
            producer.transaction_first_offset,
        )
        for producer in log.producers.producers.values()
    }
    end = log.log_end_offset
    return (
        end,
        [(one.base_offset, one.crc) for one in read_all(log)],
        producers,
        log.aborted_transactions(0, end),
        log.last_stable_offset(end),
        log.epochs.entries,
    )


@pytest.mark.parametrize("topic", TOPICS)
def test_clean_kafka_directory_is_unchanged_after_opening(kafka: Path, topic: str) -> None:
    directory = kafka / "stopped" / f"{topic}-0"
    before = files(directory)
    log = open_log(directory, topic, clean=True)
    assert len(read_all(log)) == len(batches(directory))
    for header, data in batches(directory):
        for record in decode_batch(data, header) if not header.is_control else ():
            found = log.offset_for_timestamp(record.timestamp)
            assert found is not None
            assert found.offset <= record.offset
    log.close()
    assert files(directory) == before


@pytest.mark.parametrize("topic", TOPICS)
def test_killed_kafka_directory_is_recovered(kafka: Path, topic: str) -> None:
    killed, stopped = kafka / "killed" / f"{topic}-0", kafka / "stopped" / f"{topic}-0"
    log = open_log(killed, topic, clean=False)
    reference = open_log(stopped, topic, clean=True)
    assert observed(log) == observed(reference)
    log.close()
    reference.close()
    assert files(killed) == files(stopped)


@pytest.mark.parametrize("topic", TOPICS)
def test_same_batches_give_the_same_files_as_kafka(kafka: Path, topic: str, tmp_path: Path) -> None:
    """During appends and after the log is closed."""
    source = kafka / "stopped" / f"{topic}-0"
    directory = tmp_path / "own" / f"{topic}-0"
    log = open_log(directory, topic, clean=False)
    shutil.copy(source / "partition.metadata", directory)
    for header, data in batches(source):
        log.append_as_follower(data, [header], now_ms=NOW_MS)
    assert files(directory) == files(kafka / "killed" / f"{topic}-0")
    log.close()
    assert files(directory) == files(source)

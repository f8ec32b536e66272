"""Helpers of the log tests: batches to append, and logs in their own directories."""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

from odradek.base.ids import TopicPartition
from odradek.base.ports import Disk
from odradek.config.topic_config import TopicConfig
from odradek.host.disk import HostDisk
from odradek.records.batch import BatchHeader, check_crc, parse_batches
from odradek.records.builder import build_batch
from odradek.records.control import EndTransactionMarker, build_end_transaction
from odradek.records.record import Record
from odradek.storage.log.partition_log import Appended, PartitionLog
from odradek.storage.log.producer_state import Origin

NOW_MS = 1_700_000_000_000
TOPIC_ID = UUID("12345678-1234-5678-1234-567812345678")
NAME = TopicPartition("orders", 0)
DEFAULTS = TopicConfig.resolve()


def config(**values: Any) -> TopicConfig:
    """Kafka's defaults with the given fields."""
    return replace(DEFAULTS, **values)


def records(count: int = 1, *, timestamp: int = NOW_MS, size: int = 10, step_ms: int = 0) -> list[Record]:
    return [Record(b"k%d" % n, b"v" * size, timestamp + n * step_ms) for n in range(count)]


def batch(count: int = 1, *, timestamp: int = NOW_MS, size: int = 10, step_ms: int = 0, **fields: Any) -> bytes:
    return build_batch(records(count, timestamp=timestamp, size=size, step_ms=step_ms), **fields)


class LogBox:
    """A log that can be closed, killed and reopened."""

    def __init__(self, directory: Path, disk: Disk | None = None, **options: Any) -> None:
        self.disk = disk or HostDisk()
        self.directory = directory / "orders-0"
        self.options: dict[str, Any] = {
            "topic_partition": NAME,
            "topic_id": TOPIC_ID,
            "config": DEFAULTS,
            "now_ms": NOW_MS,
        } | options
        self.leader_epoch = 0
        self.log = self.open()

    def open(self, **options: Any) -> PartitionLog:
        self.log = PartitionLog.open(self.disk, str(self.directory), **(self.options | options))
        return self.log

    def reopen_after_kill(self, **options: Any) -> PartitionLog:
        """The process died: only the files and the checkpoints remain."""
        self.log.abandon_files()
        return self.open(**options)

    def release_idle_files(self) -> None:
        """The first search notes which files are used, the second finds the others."""
        for _ in range(2):
            for segment in self.log.find_idle_segments():
                segment.release()

    def reopen_cleanly(self, **options: Any) -> PartitionLog:
        start = self.log.log_start_offset
        self.log.close()
        return self.open(had_clean_shutdown=True, log_start_offset=start, **options)

    def append(self, data: bytes, *, epoch: int | None = None, now_ms: int = NOW_MS, **options: Any) -> Appended:
        """`epoch` is the leader epoch from now on."""
        if epoch is not None:
            self.leader_epoch = epoch
        buffer = bytearray(data)
        return self.log.append_as_leader(
            buffer, parse_batches(buffer), leader_epoch=self.leader_epoch, now_ms=now_ms, **options
        )

    def produce(self, producer_id: int, sequence: int, count: int = 1, *, epoch: int = 0, **fields: Any) -> Appended:
        timestamp = fields.pop("timestamp", NOW_MS)
        data = batch(
            count,
            timestamp=timestamp,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            **fields,
        )
        return self.append(data)

    def end_transaction(
        self, producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0, version: int = 0
    ) -> Appended:
        data = build_end_transaction(
            EndTransactionMarker(committed=commit, coordinator_epoch=coordinator_epoch),
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp=NOW_MS,
        )
        return self.append(data, origin=Origin.COORDINATOR, transaction_version=version)

    def files(self) -> dict[str, bytes]:
        return {name: (self.directory / name).read_bytes() for name in sorted(os.listdir(self.directory))}

    def copy_to(self, directory: Path) -> "LogBox":
        """A box with a copy of the files, as a crash at this moment would leave them."""
        other = object.__new__(LogBox)
        other.disk = HostDisk()
        other.directory = directory / "orders-0"
        other.options = self.options
        other.leader_epoch = self.leader_epoch
        shutil.copytree(self.directory, other.directory)
        other.log = None  # type: ignore[assignment]
        return other


def read_all(log: PartitionLog, *, max_bytes: int = 1 << 20, start: int | None = None) -> list[BatchHeader]:
    """Every batch from start to end, read like a consumer, with each CRC checked."""
    found: list[BatchHeader] = []
    offset = log.log_start_offset if start is None else start
    while offset < log.log_end_offset:
        read = log.read(offset, max_bytes, end_offset_exclusive=log.log_end_offset)
        headers = parse_batches(read.data)
        for header in headers:
            check_crc(read.data, header)
            assert header.last_offset >= offset
        found += headers
        assert read.next_offset > offset
        assert not headers or read.next_offset >= headers[-1].next_offset
        offset = read.next_offset
    return found

"""One log dir: its lock, its identity, the partitions in it, and the checkpoint files beside them.

A dir that failed is given up as a whole: nothing in it is read or written again until the node restarts.
"""

import json
from collections.abc import Mapping
from uuid import UUID

from odradek.base.ids import TopicPartition
from odradek.base.ports import Disk, DiskLock
from odradek.log.checkpoints import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    MalformedCheckpoint,
    read_offsets,
    write_offsets,
)
from odradek.log.meta_properties import MetaProperties
from odradek.log.names import PartitionDir, parse_partition_dir
from odradek.log.partition_log import PartitionLog

LOCK_FILE = ".lock"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
_CLEAN_SHUTDOWN_VERSION = 0


class LogDir:
    def __init__(self, disk: Disk, path: str, lock: DiskLock, meta: MetaProperties | None) -> None:
        self._disk = disk
        self.path = path
        self._lock = lock
        self.meta = meta
        self.logs: dict[TopicPartition, PartitionLog] = {}
        # Copies on their way here from another dir of this node.
        self.future_logs: dict[TopicPartition, PartitionLog] = {}
        # Partitions being created: they count when the emptiest dir is looked for.
        self.reserved = 0
        self.had_clean_shutdown = False
        self.previous_broker_epoch: int | None = None
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_starts: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}

    @property
    def directory_id(self) -> UUID | None:
        return None if self.meta is None else self.meta.directory_id

    @property
    def partition_count(self) -> int:
        return len(self.logs) + len(self.future_logs) + self.reserved

    def file(self, name: str) -> str:
        return f"{self.path}/{name}"

    # ---- starting

    def begin(self) -> None:
        """Reads what the last run left, and takes back its word that it stopped cleanly."""
        marker = self.file(CLEAN_SHUTDOWN_FILE)
        self.had_clean_shutdown = self._disk.exists(marker)
        if self.had_clean_shutdown:
            self.previous_broker_epoch = _read_broker_epoch(self._disk.read_bytes(marker))
            self._disk.remove(marker)
            self._disk.sync_dir(self.path)
        self.recovery_points = self._read_checkpoint(RECOVERY_POINT_CHECKPOINT)
        self.log_starts = self._read_checkpoint(LOG_START_OFFSET_CHECKPOINT)
        self.high_watermarks = self._read_checkpoint(HIGH_WATERMARK_CHECKPOINT)

    def _read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        try:
            return read_offsets(self._disk, self.file(name))
        except MalformedCheckpoint:
            # Without it more is scanned, or served, than need be; nothing is lost.
            return {}

    def partition_dirs(self) -> list[tuple[str, PartitionDir]]:
        found = []
        for name in sorted(self._disk.list_dir(self.path)):
            parsed = parse_partition_dir(name)
            if parsed is not None and self._disk.is_dir(self.file(name)):
                found.append((name, parsed))
        return found

    # ---- checkpoints

    def checkpoint_recovery_points(self) -> None:
        offsets = {name: log.recovery_point for name, log in list(self.logs.items())}
        if offsets != self.recovery_points:
            write_offsets(self._disk, self.file(RECOVERY_POINT_CHECKPOINT), offsets)
            self.recovery_points = offsets

    def checkpoint_log_starts(self) -> None:
        """Only starts within a segment: else the first segment's name says it."""
        offsets = {
            name: log.log_start_offset
            for name, log in list(self.logs.items())
            if log.log_start_offset > log.segments[0].base_offset
        }
        if offsets != self.log_starts:
            write_offsets(self._disk, self.file(LOG_START_OFFSET_CHECKPOINT), offsets)
            self.log_starts = offsets

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        offsets = {name: high_watermarks[name] for name in list(self.logs) if name in high_watermarks}
        if offsets != self.high_watermarks:
            write_offsets(self._disk, self.file(HIGH_WATERMARK_CHECKPOINT), offsets)
            self.high_watermarks = offsets

    def forget_checkpoints_of(self, name: TopicPartition) -> None:
        """Before a partition of this name is created: what an earlier one left here must not be taken for its own."""
        if name in self.recovery_points or name in self.log_starts:
            self.checkpoint_recovery_points()
            self.checkpoint_log_starts()

    # ---- ending

    def close(self, broker_epoch: int) -> None:
        """Once all logs are closed: checkpoints, the word that the stop was clean, and the lock given back."""
        self.checkpoint_recovery_points()
        self.checkpoint_log_starts()
        content = {"version": _CLEAN_SHUTDOWN_VERSION, "brokerEpoch": broker_epoch}
        self._disk.write_atomically(self.file(CLEAN_SHUTDOWN_FILE), json.dumps(content, separators=(",", ":")).encode())
        self._lock.release()

    def abandon(self) -> None:
        """Writes nothing any more: the dir failed, or the node gives up."""
        for log in (*self.logs.values(), *self.future_logs.values()):
            log.release_files()
        self._lock.release()


def _read_broker_epoch(content: bytes) -> int | None:
    """None where the marker is that of a release before broker epochs were kept in it."""
    try:
        epoch = json.loads(content)["brokerEpoch"]
    except (ValueError, KeyError, TypeError):
        return None
    return epoch if isinstance(epoch, int) else None

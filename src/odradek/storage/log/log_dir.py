"""One log dir: its lock, its identity, its partitions and its checkpoint files.

After a disk failure the whole log dir is offline: nothing in it is read or written until the node restarts.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from odradek.base.ids import TopicPartition
from odradek.base.ports import Disk, DiskLock
from odradek.storage.log.checkpoints import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    MalformedCheckpoint,
    read_offsets,
    write_offsets,
)
from odradek.storage.log.deleted_files import DeletedFiles
from odradek.storage.log.meta_properties import (
    META_PROPERTIES,
    MalformedMetaProperties,
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from odradek.storage.log.names import PartitionDir, parse_partition_dir
from odradek.storage.log.partition_log import PartitionLog

LOCK_FILE = ".lock"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
_CLEAN_SHUTDOWN_VERSION = 0


class LogDirError(Exception):
    """The log dir cannot be used; the message says what to do."""


class _Checkpoint:
    """A checkpoint file that is written periodically and when a partition is created, perhaps at the same time."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self.offsets: dict[TopicPartition, int] = {}

    def update(self, current: Callable[[], dict[TopicPartition, int]], *, is_due: bool = False) -> None:
        """Writes the file if it `is_due` or the offsets have changed."""
        before, offsets = self.offsets, current()
        is_due = is_due or offsets != before
        while is_due:
            self.offsets = offsets
            try:
                write_offsets(self._disk, self._path, offsets)
            except OSError:
                self.offsets = before
                raise
            # If another update happened meanwhile, it is unknown which file was written last: write again.
            is_due = self.offsets is not offsets
            offsets = current()


class LogDir:
    def __init__(self, disk: Disk, path: str, lock: DiskLock, meta: MetaProperties | None) -> None:
        self._disk = disk
        self.path = path
        self._lock = lock
        self.meta = meta
        self.logs: dict[TopicPartition, PartitionLog] = {}
        # Future logs of log dir moves to this dir.
        self.future_logs: dict[TopicPartition, PartitionLog] = {}
        # Partitions being created: they count when the log dir with the fewest partitions is chosen.
        self.reserved = 0
        # Directories of deleted partitions.
        self.deleted = DeletedFiles(disk)
        self.had_clean_shutdown = False
        self.previous_broker_epoch: int | None = None
        self._recovery_points = _Checkpoint(disk, self.file(RECOVERY_POINT_CHECKPOINT))
        # Whether the recovery points were read: then a partition without one is new.
        self._knows_recovery_points = False
        # The partitions that the log cleaner knows; None if its checkpoint is malformed.
        self._compacted: frozenset[TopicPartition] | None = frozenset()
        self._log_starts = _Checkpoint(disk, self.file(LOG_START_OFFSET_CHECKPOINT))
        self.high_watermarks: dict[TopicPartition, int] = {}

    @classmethod
    def open(cls, disk: Disk, path: str) -> "LogDir":
        """Creates the dir if necessary, locks it and reads its identity. Raises LogDirError if an operator has to
        act."""
        if disk.exists(path) and not disk.is_dir(path):
            raise LogDirError(f"{path} is not a directory")
        disk.make_dirs(path)
        try:
            lock = disk.lock(f"{path}/{LOCK_FILE}")
        except BlockingIOError:
            raise LogDirError(f"{path} is locked by another process ({path}/{LOCK_FILE})") from None
        try:
            meta = read_meta_properties(disk, path)
        except MalformedMetaProperties as error:
            lock.release()
            raise LogDirError(f"{error}. Correct the file, or format the directory again.") from None
        except OSError:
            lock.release()
            raise
        return cls(disk, path, lock, meta)

    @property
    def directory_id(self) -> UUID | None:
        return None if self.meta is None else self.meta.directory_id

    @property
    def partition_count(self) -> int:
        return len(self.logs) + len(self.future_logs) + self.reserved

    def file(self, name: str) -> str:
        return f"{self.path}/{name}"

    # ---- startup

    def begin(self) -> None:
        """Reads the checkpoints of the last run and removes its clean shutdown marker."""
        marker = self.file(CLEAN_SHUTDOWN_FILE)
        self.had_clean_shutdown = self._disk.exists(marker)
        if self.had_clean_shutdown:
            self.previous_broker_epoch = _read_broker_epoch(self._disk.read_bytes(marker))
            self._disk.remove(marker)
        # Also syncs what the last run created without syncing before it crashed.
        self._disk.sync_dir(self.path)
        recovery_points = self._read_checkpoint(RECOVERY_POINT_CHECKPOINT)
        # Apache Kafka starts with an empty file.
        self._knows_recovery_points = recovery_points is not None and self._has_content(RECOVERY_POINT_CHECKPOINT)
        self._recovery_points.offsets = recovery_points or {}
        # Without the other checkpoints more is scanned or served than necessary; no data is lost.
        self._log_starts.offsets = self._read_checkpoint(LOG_START_OFFSET_CHECKPOINT) or {}
        self.high_watermarks = self._read_checkpoint(HIGH_WATERMARK_CHECKPOINT) or {}
        compacted = self._read_checkpoint(CLEANER_CHECKPOINT)
        self._compacted = None if compacted is None else frozenset(compacted)

    def _read_checkpoint(self, name: str) -> dict[TopicPartition, int] | None:
        """None if the file is malformed."""
        try:
            return read_offsets(self._disk, self.file(name))
        except MalformedCheckpoint:
            return None

    def _has_content(self, name: str) -> bool:
        path = self.file(name)
        return self._disk.exists(path) and self._disk.size(path) > 0

    def recovery_point_of(self, name: TopicPartition) -> int | None:
        """The recovery point of the last run, 0 for a partition that was new then. None: unknown."""
        return self.recovery_points.get(name, 0) if self._knows_recovery_points else None

    def was_compacted(self, name: TopicPartition) -> bool:
        """Whether the log cleaner may have removed records of the partition, whatever the topic's policy is now."""
        return self._compacted is None or name in self._compacted

    def finish_loading(self) -> None:
        """Writes a missing recovery point checkpoint: the next start then knows what was flushed, and which partitions
        are new."""
        if not self._knows_recovery_points:
            self._recovery_points.update(self._current_recovery_points, is_due=True)
            self._knows_recovery_points = True

    def partition_dirs(self) -> list[tuple[str, PartitionDir]]:
        found = []
        for name in sorted(self._disk.list_dir(self.path)):
            parsed = parse_partition_dir(name)
            if parsed is not None and self._disk.is_dir(self.file(name)):
                found.append((name, parsed))
        return found

    def remove_deleted(self, now_ms: int) -> None:
        """Removes the files and directories whose delay has passed."""
        for log in list(self.logs.values()):
            log.remove_deleted(now_ms)
        for path in self.deleted.take_due(now_ms):
            if self._disk.exists(path):
                self._disk.remove_tree(path)

    # ---- checkpoints

    @property
    def recovery_points(self) -> Mapping[TopicPartition, int]:
        return self._recovery_points.offsets

    @property
    def log_starts(self) -> Mapping[TopicPartition, int]:
        return self._log_starts.offsets

    def checkpoint_recovery_points(self) -> None:
        self._recovery_points.update(self._current_recovery_points)

    def _current_recovery_points(self) -> dict[TopicPartition, int]:
        """Also of future logs: they count as soon as the log is promoted, and not before."""
        logs = {**self.future_logs, **self.logs}
        return {name: log.recovery_point for name, log in logs.items()}

    def checkpoint_log_starts(self) -> None:
        """Writes only log starts inside a segment: otherwise the first segment's name is the log start."""
        self._log_starts.update(
            lambda: {
                name: log.log_start_offset
                for name, log in list(self.logs.items())
                if log.log_start_offset > log.segments[0].base_offset
            }
        )

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        offsets = {name: high_watermarks[name] for name in list(self.logs) if name in high_watermarks}
        if offsets != self.high_watermarks:
            write_offsets(self._disk, self.file(HIGH_WATERMARK_CHECKPOINT), offsets)
            self.high_watermarks = offsets

    def forget_checkpoints_of(self, name: TopicPartition) -> None:
        """Called before a partition of this name is created: the checkpoints of an earlier one must not apply to it."""
        if name in self.recovery_points or name in self.log_starts:
            self.checkpoint_recovery_points()
            self.checkpoint_log_starts()

    # ---- closing

    def close(self, broker_epoch: int) -> None:
        """After all logs are closed: writes the checkpoints and the clean shutdown marker, and releases the lock."""
        self.checkpoint_recovery_points()
        self.checkpoint_log_starts()
        content = {"version": _CLEAN_SHUTDOWN_VERSION, "brokerEpoch": broker_epoch}
        self._disk.write_atomically(self.file(CLEAN_SHUTDOWN_FILE), json.dumps(content, separators=(",", ":")).encode())
        self._lock.release()

    def abandon(self) -> None:
        """Releases the lock without writing: the log dir failed, or the node aborts."""
        for log in (*self.logs.values(), *self.future_logs.values()):
            log.abandon_files()
        self._lock.release()


def _read_broker_epoch(content: bytes) -> int | None:
    """None if the marker was written by a release that did not store the broker epoch."""
    try:
        epoch = json.loads(content)["brokerEpoch"]
    except (ValueError, KeyError, TypeError):
        return None
    return epoch if isinstance(epoch, int) else None


def agree_on_identity(
    disk: Disk, dirs: Sequence[LogDir], node_id: int, cluster_id: str | None, new_id: Callable[[], UUID]
) -> None:
    """Checks that all dirs belong to this node and one cluster, and assigns missing directory IDs."""
    for log_dir in dirs:
        meta = log_dir.meta
        if meta is None:
            continue
        if cluster_id is None:
            cluster_id = meta.cluster_id
        if meta.cluster_id != cluster_id:
            raise LogDirError(f"{log_dir.path} belongs to cluster {meta.cluster_id}, not to {cluster_id}")
        if meta.node_id != node_id:
            raise LogDirError(f"{log_dir.path} belongs to node {meta.node_id}, but this is node {node_id}")
    if cluster_id is None:
        listed = ", ".join(log_dir.path for log_dir in dirs)
        raise LogDirError(f"no {META_PROPERTIES} in {listed}: the directory is not formatted (odradek format)")
    for log_dir in dirs:
        if log_dir.meta is None or log_dir.meta.directory_id is None:
            log_dir.meta = MetaProperties(cluster_id, node_id, new_id())
            write_meta_properties(disk, log_dir.path, log_dir.meta)
    ids = [log_dir.directory_id for log_dir in dirs]
    if len(set(ids)) != len(ids):
        raise LogDirError(f"two log dirs have the same directory.id: {', '.join(log_dir.path for log_dir in dirs)}")

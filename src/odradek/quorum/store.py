"""The metadata log of this node on its disk: `__cluster_metadata-0` with its snapshots and `quorum-state`.

All calls block; the caller chooses the thread. Appends and reads may overlap with a flush; all other calls need
exclusive access.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from odradek.base.errors import KafkaError
from odradek.base.ids import METADATA_TOPIC, METADATA_TOPIC_ID, TopicPartition
from odradek.base.ports import Clock, Disk
from odradek.config.node_config import NodeConfig
from odradek.config.topic_config import TopicConfig
from odradek.core.metadata.batches import MetadataBatch, read_metadata_batch
from odradek.core.metadata.image import EMPTY_IMAGE, ClusterImage
from odradek.core.metadata.snapshot import (
    HEADER_BYTES_MAX,
    SnapshotId,
    decode_snapshot,
    is_leftover,
    parse_file_name,
    read_timestamp,
)
from odradek.core.metadata.snapshot_file import write_snapshot_file
from odradek.core.raft.batch import Batch
from odradek.core.raft.log_view import BOOTSTRAP_SNAPSHOT
from odradek.core.raft.quorum_state import FILE_NAME, QuorumState
from odradek.core.raft.snapshot_policy import KeptSnapshot, oldest_to_keep
from odradek.core.raft.stored_state import StoredState
from odradek.core.raft.voter_set import VoterSet
from odradek.core.raft.voters import Quorum
from odradek.records.batch import BatchHeader, parse_batches, patch_offset_and_epoch
from odradek.records.control import build_control_batch
from odradek.storage.log.lazy_file import LazyFile
from odradek.storage.log.partition_log import PartitionLog
from odradek.storage.partition.write_timer import WriteTimer

logger = logging.getLogger(__name__)

PARTITION: Final = TopicPartition(METADATA_TOPIC, 0)
_READ_BYTES: Final = 1 << 20
_BATCH_BYTES_MAX: Final = 8 << 20
_DELETE_DELAY_MS: Final = 60_000


class OffsetOutOfLog(Exception):
    """The log starts after this offset."""


class PreparedBatch(NamedTuple):
    data: bytearray
    headers: list[BatchHeader]


class QuorumStore:
    def __init__(
        self,
        disk: Disk,
        directory: str,
        log: PartitionLog,
        snapshots: dict[SnapshotId, KeptSnapshot],
        quorum_state: QuorumState,
        image: ClusterImage,
        quorum: Quorum,
    ) -> None:
        """Use `open` instead."""
        self._disk = disk
        self._directory = directory
        self._log = log
        self._snapshots = snapshots
        # The downloaded pieces, open until they are synced: see `LazyFile`.
        self._part: LazyFile | None = None
        self._quorum_state: Final = quorum_state
        self._latest_quorum: Final = quorum
        self.image: Final = image.with_kraft_version(quorum.kraft_version)
        """The image of the newest snapshot. Records after it may not be committed."""

    @classmethod
    def open(cls, disk: Disk, config: NodeConfig, *, now_ms: int, had_clean_shutdown: bool = False) -> "QuorumStore":
        """Syncs everything that it finds, since consensus relies on it.

        Raises ValueError, CorruptBatch or InvalidRecords for unreadable files, and OSError.
        """
        directory = f"{config.metadata_log_dir}/{PARTITION}"
        disk.make_dirs(directory)
        names = disk.list_dir(directory)
        for name in filter(is_leftover, names):
            disk.remove(f"{directory}/{name}")
        snapshots = {
            snapshot_id: _kept_snapshot(disk, directory, snapshot_id)
            for snapshot_id in sorted(filter(None, map(parse_file_name, names)))
        }
        latest = max(snapshots, default=None)
        log = PartitionLog.open(
            disk,
            directory,
            topic_partition=PARTITION,
            topic_id=METADATA_TOPIC_ID,
            config=_log_config(config),
            # The records of a snapshot were synced before it was written.
            recovery_point=0 if latest is None else latest.end_offset,
            had_clean_shutdown=had_clean_shutdown,
            now_ms=now_ms,
        )
        quorum, image = Quorum(), EMPTY_IMAGE
        if latest is not None:
            if not _reaches(log, latest):
                log.truncate_fully_to(latest.end_offset, now_ms)
            snapshot = decode_snapshot(disk.read_bytes(f"{directory}/{latest.file_name}"))
            quorum = quorum.after(snapshot.quorum)
            image = snapshot.image(latest)
        if log.log_start_offset > 0:
            # Retention deletes whole segments, but the log must start at the end of a snapshot.
            log.advance_log_start(_first_after(log.log_start_offset, snapshots))
        log.flush()
        state_path = f"{directory}/{FILE_NAME}"
        state = QuorumState.decode(disk.read_bytes(state_path)) if disk.exists(state_path) else QuorumState()
        return cls(disk, directory, log, snapshots, state, image, quorum)

    def stored_state(self, static_voters: VoterSet) -> StoredState:
        """The initial state of the raft state machine."""
        start_offset = self._log.log_start_offset
        base = next((one for one in self._snapshots if one.end_offset == start_offset), BOOTSTRAP_SNAPSHOT)
        return StoredState.build(
            quorum_state=self._quorum_state,
            static_voters=static_voters,
            base=base,
            base_quorum=self._quorum_in(base),
            snapshots={snapshot_id: kept.size_bytes for snapshot_id, kept in self._snapshots.items()},
            batches=self._outlines(),
        )

    def _quorum_in(self, snapshot_id: SnapshotId) -> Quorum:
        """The newest snapshot, which may be large, was read by `open`."""
        if snapshot_id not in self._snapshots:
            return Quorum()
        if snapshot_id == max(self._snapshots):
            return self._latest_quorum
        return Quorum().after(decode_snapshot(self._disk.read_bytes(self._path(snapshot_id.file_name))).quorum)

    def _outlines(self) -> Iterator[Batch]:
        """The log's batches without their records."""
        offset = self._log.log_start_offset
        while offset < self._log.log_end_offset:
            data = self.read(offset, self._log.log_end_offset, _READ_BYTES)
            for header in parse_batches(data):
                control = read_metadata_batch(data, header).control if header.is_control else ()
                yield Batch(
                    base_offset=header.base_offset,
                    last_offset=header.last_offset,
                    epoch=header.leader_epoch,
                    control=control,
                )
                offset = header.last_offset + 1

    # Reading

    def read(self, start_offset: int, end_offset: int, max_bytes: int) -> bytes:
        """Whole batches from this offset, at least one. May block on the disk. Raises OffsetOutOfLog."""
        try:
            return bytes(self._log.read(start_offset, max_bytes, end_offset_exclusive=end_offset).data)
        except KafkaError as error:
            raise OffsetOutOfLog from error

    def read_cached(self, start_offset: int, end_offset: int, max_bytes: int) -> bytes | None:
        """Like `read`, but None if that would block on the disk."""
        try:
            read = self._log.read_cached(start_offset, max_bytes, end_offset_exclusive=end_offset)
        except KafkaError as error:
            raise OffsetOutOfLog from error
        return None if read is None else bytes(read.data)

    def read_snapshot(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> bytes:
        file = self._disk.open(self._path(snapshot_id.file_name), read_only=True)
        try:
            return file.read(position, max_bytes)
        finally:
            file.close()

    # Writing

    def write_quorum_state(self, state: QuorumState, kraft_version: int, voter_ids: tuple[int, ...]) -> None:
        """StoredState once it returns."""
        self._disk.write_atomically(self._path(FILE_NAME), state.encode(kraft_version, voter_ids))

    def prepare(self, batches: Iterable[Batch], now_ms: int) -> list[PreparedBatch]:
        """What `append` writes."""
        prepared = []
        for batch in batches:
            data = bytearray(batch.data) if batch.data else _control_bytes(batch, now_ms)
            headers = parse_batches(data)
            # A leader's batch was built before its offset was known.
            patch_offset_and_epoch(data, headers[0], batch.base_offset, batch.epoch)
            prepared.append(PreparedBatch(data, headers))
        return prepared

    def can_append_quickly(self, prepared: Sequence[PreparedBatch], now_ms: int) -> bool:
        """Whether `append` only writes to open files. Otherwise it may block."""
        headers = [header for batch in prepared for header in batch.headers]
        size = sum(len(batch.data) for batch in prepared)
        return self._log.can_append_quickly(size, headers, b"", now_ms, leader_epoch=None)

    def append(self, prepared: Iterable[PreparedBatch], now_ms: int) -> None:
        """StoredState only after `flush`."""
        for data, headers in prepared:
            self._log.append_as_follower(data, headers, now_ms=now_ms)

    def new_timer(self, clock: Clock) -> WriteTimer:
        """For an append that follows."""
        return WriteTimer(clock, self._log)

    def flush(self) -> None:
        self._log.flush()

    def truncate(self, end_offset: int, now_ms: int) -> None:
        """StoredState once it returns."""
        self._log.truncate_to(end_offset, now_ms)
        self._log.flush()

    def close(self) -> None:
        self._log.close()

    # Snapshots

    def write_snapshot(self, image: ClusterImage, quorum: Quorum, now_ms: int) -> tuple[SnapshotId, int] | None:
        """Returns its ID and size. None: it exists already."""
        snapshot_id = SnapshotId(image.offset + 1, image.epoch)
        if snapshot_id in self._snapshots:
            return None
        path = self._path(snapshot_id.file_name)
        size_bytes = write_snapshot_file(self._disk, path, image, now_ms=now_ms, quorum=quorum.messages())
        self._snapshots[snapshot_id] = KeptSnapshot(snapshot_id, size_bytes, image.timestamp_ms)
        return snapshot_id, size_bytes

    def write_piece(self, snapshot_id: SnapshotId, position: int, data: bytes) -> None:
        """Writes a piece of a downloaded snapshot. Position 0 starts a new file."""
        path = self._path(_part_name(snapshot_id))
        if self._part is None or self._part.path != path:
            self._close_part()
            self._part = LazyFile(self._disk, path)
        file = self._part.create()
        if position == 0:
            file.truncate(0)
        file.write_at(position, data)
        self._part.on_write()

    def _close_part(self) -> None:
        if self._part is not None:
            self._part.abandon()
            self._part = None

    def abandon_pieces(self, snapshot_id: SnapshotId) -> None:
        self._close_part()
        path = self._path(_part_name(snapshot_id))
        if self._disk.exists(path):
            self._disk.remove(path)

    def load_pieces(self, snapshot_id: SnapshotId, now_ms: int) -> tuple[ClusterImage, Quorum, int]:
        """Replaces the log with the downloaded snapshot, durably. Returns its image, its voters and its size.

        Raises ValueError or CorruptBatch where the pieces are no snapshot; then nothing has changed.
        """
        part = self._path(_part_name(snapshot_id))
        data = self._disk.read_bytes(part)
        snapshot = decode_snapshot(data)
        quorum = Quorum().after(snapshot.quorum)
        image = snapshot.image(snapshot_id).with_kraft_version(quorum.kraft_version)
        assert self._part is not None and self._part.path == part, f"{part} was closed before it was synced"
        self._part.sync()
        self._close_part()
        # The rename makes the snapshot valid; the next start also replaces a log that ends before it.
        self._disk.rename(part, self._path(snapshot_id.file_name))
        kept = KeptSnapshot(snapshot_id, len(data), snapshot.last_contained_log_timestamp_ms)
        self._snapshots[snapshot_id] = kept
        self._log.truncate_fully_to(snapshot_id.end_offset, now_ms)
        self._log.flush()
        return image, quorum, len(data)

    def clean(self, config: NodeConfig, now_ms: int) -> SnapshotId | None:
        """Deletes snapshots, and the log before them, that exceed the retention. Returns the snapshot at whose end
        the log starts now, or None if nothing changed."""
        keep = oldest_to_keep(
            sorted(self._snapshots.values(), key=lambda snapshot: snapshot.id),
            log_size_bytes=self._log.size_bytes,
            now_ms=now_ms,
            retention_bytes=config.metadata_max_retention_bytes,
            retention_ms=config.metadata_max_retention_ms,
        )
        started_at = self._log.log_start_offset
        if keep is not None:
            self._log.advance_log_start(keep.id.end_offset)
            for snapshot_id in [one for one in self._snapshots if one < keep.id]:
                del self._snapshots[snapshot_id]
                self._disk.remove(self._path(snapshot_id.file_name))
                logger.info("Metadata snapshot removed: file=%s", snapshot_id.file_name)
            self._log.delete_old_segments(now_ms, self._log.log_end_offset)
        self._log.remove_deleted(now_ms)
        return keep.id if keep is not None and self._log.log_start_offset > started_at else None

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"


def read_committed(data: bytes) -> Iterator[MetadataBatch]:
    """Decodes the batches. Raises UnreadableRecord."""
    for header in parse_batches(data):
        yield read_metadata_batch(data, header)


def _control_bytes(batch: Batch, now_ms: int) -> bytearray:
    return bytearray(
        build_control_batch(batch.control, base_offset=batch.base_offset, leader_epoch=batch.epoch, timestamp=now_ms)
    )


def _part_name(snapshot_id: SnapshotId) -> str:
    return f"{snapshot_id.file_name}.part"


def _reaches(log: PartitionLog, snapshot_id: SnapshotId) -> bool:
    """Whether the log contains the snapshot's end."""
    if log.log_end_offset < snapshot_id.end_offset:
        return False
    # None: the log starts at the snapshot's end and has no epochs before it.
    return log.epochs.epoch_for_offset(snapshot_id.end_offset - 1) in (None, snapshot_id.epoch)


def _first_after(start_offset: int, snapshots: Iterable[SnapshotId]) -> int:
    ends = [one.end_offset for one in snapshots if one.end_offset >= start_offset]
    if not ends:
        raise ValueError(f"it starts at offset {start_offset} without a snapshot of the records before")
    return min(ends)


def _kept_snapshot(disk: Disk, directory: str, snapshot_id: SnapshotId) -> KeptSnapshot:
    path = f"{directory}/{snapshot_id.file_name}"
    file = disk.open(path, read_only=True)
    try:
        return KeptSnapshot(snapshot_id, file.size(), read_timestamp(file.read(0, HEADER_BYTES_MAX)))
    finally:
        file.close()


def _log_config(config: NodeConfig) -> TopicConfig:
    settings = {
        "segment.bytes": str(config.metadata_log_segment_bytes),
        "segment.ms": str(config.metadata_log_segment_ms),
        "max.message.bytes": str(_BATCH_BYTES_MAX),
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "file.delete.delay.ms": str(_DELETE_DELAY_MS),
    }
    # Below the public minimum, for tests: as Kafka's.
    small_segments = config.effective("internal.metadata.log.segment.bytes")
    if small_segments is not None:
        settings["internal.segment.bytes"] = str(small_segments)
    return TopicConfig.resolve(settings)

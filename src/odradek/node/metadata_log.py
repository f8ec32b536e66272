"""The metadata log of this node on its disk: `__cluster_metadata-0` with its snapshots and `quorum-state`.

Blocking calls, for whatever thread the caller chooses; it decides nothing about when to call them.
"""

import logging
from collections.abc import Sequence
from typing import Final

from odradek.base.ids import METADATA_TOPIC, METADATA_TOPIC_ID, TopicPartition
from odradek.base.ports import Disk
from odradek.config.node_config import NodeConfig
from odradek.config.topic_config import TopicConfig
from odradek.log.partition_log import PartitionLog
from odradek.metadata.batches import build_metadata_batch, read_metadata_batch
from odradek.metadata.image import EMPTY_IMAGE, ClusterImage
from odradek.metadata.records import MetadataRecord
from odradek.metadata.replay import Replay
from odradek.metadata.snapshot import (
    HEADER_BYTES_MAX,
    SnapshotId,
    decode_snapshot,
    is_leftover,
    parse_file_name,
    read_timestamp,
    snapshot_of,
)
from odradek.raft.quorum_state import FILE_NAME, QuorumState
from odradek.raft.snapshot_policy import KeptSnapshot, oldest_to_keep
from odradek.raft.voters import Quorum
from odradek.records.batch import parse_batches
from odradek.records.control import ControlMessage, build_control_batch

logger = logging.getLogger(__name__)

PARTITION: Final = TopicPartition(METADATA_TOPIC, 0)
_READ_BYTES: Final = 1 << 20
_BATCH_BYTES_MAX: Final = 8 << 20
_DELETE_DELAY_MS: Final = 60_000


class MetadataLog:
    def __init__(
        self,
        disk: Disk,
        directory: str,
        log: PartitionLog,
        snapshots: dict[SnapshotId, KeptSnapshot],
        replay: Replay,
        quorum: Quorum,
        voted_epoch: int,
        bytes_since_snapshot: int,
    ) -> None:
        """Not for callers: see `open`."""
        self._disk = disk
        self._directory = directory
        self._log = log
        self._snapshots = snapshots
        self.image: Final = replay.image().with_kraft_version(quorum.kraft_version)
        """Of everything that was found on disk."""
        self.ends_inside_transaction: Final = replay.is_inside_transaction
        self.quorum: Final = quorum
        """As log and snapshots knew it when they were opened."""
        self.last_epoch: Final = max(voted_epoch, self.image.epoch, 0)
        """The highest that log, snapshots or `quorum-state` knew."""
        self.bytes_since_snapshot: Final = bytes_since_snapshot

    @classmethod
    def open(cls, disk: Disk, config: NodeConfig, *, now_ms: int, had_clean_shutdown: bool = False) -> "MetadataLog":
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
            # What a snapshot holds was synced before the snapshot was taken.
            recovery_point=0 if latest is None else latest.end_offset,
            had_clean_shutdown=had_clean_shutdown,
            now_ms=now_ms,
        )
        quorum, image = Quorum(), EMPTY_IMAGE
        if latest is not None:
            if log.log_end_offset < latest.end_offset:
                log.truncate_fully_to(latest.end_offset, now_ms)
            snapshot = decode_snapshot(disk.read_bytes(f"{directory}/{latest.file_name}"))
            quorum = quorum.after(snapshot.quorum)
            image = snapshot.image(latest)
        replay = Replay(image)
        offset = max(image.offset + 1, log.log_start_offset)
        replayed_bytes = 0
        while offset < log.log_end_offset:
            read = log.read(offset, _READ_BYTES, end_offset_exclusive=log.log_end_offset)
            for header in parse_batches(read.data):
                batch = read_metadata_batch(read.data, header)
                quorum = quorum.after(batch.control)
                replay.take(batch)
                replayed_bytes += batch.size_bytes
                offset = header.last_offset + 1
        state_path = f"{directory}/{FILE_NAME}"
        state = QuorumState.decode(disk.read_bytes(state_path)) if disk.exists(state_path) else QuorumState()
        return cls(disk, directory, log, snapshots, replay, quorum, state.leader_epoch, replayed_bytes)

    # Writing

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    def write_quorum_state(self, state: QuorumState, quorum: Quorum, voter_ids: tuple[int, ...]) -> None:
        """Durable once it returns."""
        self._disk.write_atomically(self._path(FILE_NAME), state.encode(quorum.kraft_version, voter_ids))

    def append(self, records: Sequence[MetadataRecord], *, epoch: int, metadata_version: int, now_ms: int) -> int:
        """Returns the size of what was written; it is committed only after `flush`."""
        return self._append(
            build_metadata_batch(records, metadata_version=metadata_version, timestamp_ms=now_ms), epoch, now_ms
        )

    def append_control(self, messages: Sequence[ControlMessage], *, epoch: int, now_ms: int) -> int:
        batch = build_control_batch(messages, base_offset=0, leader_epoch=epoch, timestamp=now_ms)
        return self._append(batch, epoch, now_ms)

    def _append(self, batch: bytes, epoch: int, now_ms: int) -> int:
        data = bytearray(batch)
        self._log.append_as_leader(data, parse_batches(data), leader_epoch=epoch, now_ms=now_ms)
        return len(data)

    def flush(self) -> None:
        self._log.flush()

    # Snapshots

    def write_snapshot(self, image: ClusterImage, quorum: Quorum, now_ms: int) -> None:
        snapshot_id = SnapshotId(image.offset + 1, image.epoch)
        data = snapshot_of(image, now_ms=now_ms, quorum=quorum.messages())
        self._disk.write_atomically(self._path(snapshot_id.file_name), data)
        self._snapshots[snapshot_id] = KeptSnapshot(snapshot_id, len(data), image.timestamp_ms)

    def clean(self, config: NodeConfig, now_ms: int) -> None:
        """Lets go of snapshots, and the log below them, that retention has passed."""
        keep = oldest_to_keep(
            sorted(self._snapshots.values(), key=lambda snapshot: snapshot.id),
            log_size_bytes=self._log.size_bytes,
            now_ms=now_ms,
            retention_bytes=config.metadata_max_retention_bytes,
            retention_ms=config.metadata_max_retention_ms,
        )
        if keep is not None:
            self._log.advance_log_start(keep.id.end_offset)
            for snapshot_id in [one for one in self._snapshots if one < keep.id]:
                del self._snapshots[snapshot_id]
                self._disk.remove(self._path(snapshot_id.file_name))
                logger.info("removed metadata snapshot %s", snapshot_id.file_name)
            self._log.delete_old_segments(now_ms, self._log.log_end_offset)
        self._log.remove_deleted(now_ms)

    def close(self) -> None:
        self._log.close()

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"


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

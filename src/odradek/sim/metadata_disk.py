"""The metadata log, the snapshots and the votes of one node, read off its virtual disk.

Reads files as Kafka lays them out, without the code that writes them; only single records are decoded with it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID
from zlib import crc32

from crc32c import crc32c

from odradek.metadata.batches import read_metadata_batch
from odradek.metadata.records import ConfigRecord, MetadataRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from odradek.metadata.records import encode as encode_record
from odradek.records.batch import parse_batches
from odradek.records.control import LeaderChange, LeaderChangeV0
from odradek.sim.disk import FileNode, VirtualDisk
from odradek.sim.history import LogBatch, MetadataCopy, QuorumState

_HEADER: Final = Struct(">qiibIhi")
_SIZE_OVERHEAD: Final = 12
_CRC_COVERS_FROM: Final = 21
_SEGMENT: Final = re.compile(r"(\d{20})\.log\Z")
_SNAPSHOT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint\Z")
_TOPIC: Final = 2


class TopicOnDisk(NamedTuple):
    partitions: int
    configs: dict[str, str]


class MetadataDisk:
    def __init__(self, node: str, disk: VirtualDisk, metadata_log_dir: str) -> None:
        self._node: Final = node
        self._disk: Final = disk
        self._directory: Final = f"{metadata_log_dir}/__cluster_metadata-0"

    # ---- as a process would find it

    def copy(self, seconds: float) -> MetadataCopy:
        batches = tuple(_log_batch(data) for data in self._batches())
        snapshots = {snapshot_id: _digest(self._records_of(data)) for snapshot_id, data in self._snapshots()}
        return MetadataCopy(node=self._node, seconds=seconds, batches=batches, snapshots=snapshots)

    def topics(self) -> dict[str, TopicOnDisk]:
        """What the last snapshot and the log after it say."""
        topics = _Topics()
        start = 0
        for (end_offset, _), data in sorted(self._snapshots())[-1:]:
            start = end_offset
            topics.take(self._records_of(data))
        for batch in self._batches():
            if _log_batch(batch).base_offset >= start:
                topics.take(self._records_of(batch))
        return topics.by_name()

    def shorten(self, batches: int) -> int:
        """Takes the last of them away for good. Returns how many offsets that were."""
        segments = [path for path, _ in self._segments()]
        if not segments:
            return 0
        file = self._disk.file(segments[-1])
        sizes = [len(data) for data in _split(file.cached.read(0, file.cached.size))]
        kept = sizes[: max(0, len(sizes) - batches)]
        before = self.last()
        file.resize(sum(kept), file.modified_ms)
        file.sync()
        after = self.last()
        return (-1 if before is None else before.last_offset) - (-1 if after is None else after.last_offset)

    def last(self) -> LogBatch | None:
        batches = list(self._batches())
        return _log_batch(batches[-1]) if batches else None

    # ---- as it would be after a loss of power, at least

    def durable_state(self, seconds: float) -> QuorumState | None:
        data = self._disk.durable_bytes(f"{self._directory}/quorum-state")
        if not data:
            return None
        fields = json.loads(data)
        return QuorumState(
            node=self._node,
            seconds=seconds,
            epoch=fields["leaderEpoch"],
            leader_id=fields["leaderId"],
            voted_id=fields["votedId"],
        )

    def durable_end_offset(self) -> int:
        names = self._disk.durable_names(self._directory)
        ends = [int(found[1]) for name in names if (found := _SNAPSHOT.match(name))]
        segments = [name for name in names if _SEGMENT.match(name)]
        if segments:
            ends.append(int(segments[-1].removesuffix(".log")))
            ends += [_log_batch(data).last_offset + 1 for data in self._durable_batches(segments)]
        return max(ends, default=0)

    def durably_has(self, batch: LogBatch) -> bool:
        """Or a snapshot that stands for it."""
        names = self._disk.durable_names(self._directory)
        if any(int(found[1]) > batch.last_offset for name in names if (found := _SNAPSHOT.match(name))):
            return True
        segments = [name for name in names if _SEGMENT.match(name)]
        return any(_log_batch(data) == batch for data in self._durable_batches(segments))

    # ---- files

    def _durable_batches(self, segments: Sequence[str]) -> Iterator[bytes]:
        for name in segments:
            yield from _split(self._disk.durable_bytes(f"{self._directory}/{name}") or b"")

    def _segments(self) -> list[tuple[str, FileNode]]:
        return [one for one in self._files() if _SEGMENT.match(one[0].rpartition("/")[2])]

    def _batches(self) -> Iterator[bytes]:
        for _, file in self._segments():
            yield from _split(file.cached.read(0, file.cached.size))

    def _snapshots(self) -> Iterator[tuple[tuple[int, int], bytes]]:
        for path, file in self._files():
            if found := _SNAPSHOT.match(path.rpartition("/")[2]):
                yield (int(found[1]), int(found[2])), file.cached.read(0, file.cached.size)

    def _files(self) -> list[tuple[str, FileNode]]:
        return list(self._disk.files(self._directory)) if self._disk.find(self._directory) is not None else []

    def _records_of(self, data: bytes) -> list[MetadataRecord]:
        return [record for header in parse_batches(data) for record in read_metadata_batch(data, header).records]


class _Topics:
    """As much as has to be known of a topic to see whether a change of it is there."""

    def __init__(self) -> None:
        self._names: Final[dict[UUID, str]] = {}
        self._partitions: Final[dict[UUID, set[int]]] = {}
        self._configs: Final[dict[str, dict[str, str]]] = {}

    def take(self, records: Sequence[MetadataRecord]) -> None:
        for record in records:
            if isinstance(record, TopicRecord):
                self._names[record.topic_id] = record.name
                self._partitions[record.topic_id] = set()
            elif isinstance(record, PartitionRecord):
                self._partitions[record.topic_id].add(record.partition_id)
            elif isinstance(record, RemoveTopicRecord):
                self._configs.pop(self._names.pop(record.topic_id), None)
                del self._partitions[record.topic_id]
            elif isinstance(record, ConfigRecord) and record.resource_type == _TOPIC:
                configs = self._configs.setdefault(record.resource_name, {})
                if record.value is None:
                    configs.pop(record.name, None)
                else:
                    configs[record.name] = record.value

    def by_name(self) -> dict[str, TopicOnDisk]:
        return {
            name: TopicOnDisk(len(self._partitions[topic_id]), self._configs.get(name, {}))
            for topic_id, name in self._names.items()
        }


def _split(data: bytes) -> Iterator[bytes]:
    """The whole batches at its begin."""
    position = 0
    while len(data) - position >= _HEADER.size:
        size = _HEADER.unpack_from(data, position)[1] + _SIZE_OVERHEAD
        batch = data[position : position + size]
        if (
            size <= _SIZE_OVERHEAD
            or len(batch) < size
            or crc32c(batch[_CRC_COVERS_FROM:]) != _HEADER.unpack_from(batch)[4]
        ):
            return
        yield batch
        position += size


def _log_batch(data: bytes) -> LogBatch:
    base_offset, _, epoch, _, _, attributes, last_delta = _HEADER.unpack_from(data)
    leader_id = None
    if attributes & 0x20:
        (header,) = parse_batches(data)
        for message in read_metadata_batch(data, header).control:
            if isinstance(message, LeaderChange | LeaderChangeV0):
                leader_id = message.leader_id
    return LogBatch(base_offset, base_offset + last_delta, epoch, crc32(data), leader_id)


def _digest(records: Sequence[MetadataRecord]) -> int:
    """The same for the same records: in which order a snapshot tells them is nobody's business."""
    return crc32(b"".join(sorted(map(encode_record, records))))

"""The metadata log, the snapshots and the votes of one node, read off its virtual disk.

Reads files as Kafka lays them out, without the code that writes them; only single records are decoded with it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from uuid import UUID
from zlib import crc32

from odradek.core.metadata.batches import read_metadata_batch
from odradek.core.metadata.image import RESOURCE_TOPIC
from odradek.core.metadata.records import (
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from odradek.core.metadata.records import encode as encode_record
from odradek.records.batch import parse_batches
from odradek.records.control import LeaderChange, LeaderChangeV0, Voters
from odradek.sim.disk import FileNode, VirtualDisk
from odradek.sim.quorum_history import LogBatch, LogEnd, MetadataCopy, QuorumState
from odradek.sim.stored_log import CRC_COVERS_FROM, HEADER, StoredLog

_SNAPSHOT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint\Z")
_IS_CONTROL: Final = 0x20


class TopicOnDisk(NamedTuple):
    partitions: int
    configs: dict[str, str]


class MetadataDisk:
    def __init__(self, node: str, disk: VirtualDisk, metadata_log_dir: str) -> None:
        self._node: Final = node
        self._disk: Final = disk
        self.directory: Final = f"{metadata_log_dir}/__cluster_metadata-0"
        self._log: Final = StoredLog(disk, self.directory, outline)
        self._digests: Final[dict[FileNode, tuple[int, int, int]]] = {}

    # ---- as a process would find it

    def copy(self, seconds: float) -> MetadataCopy:
        snapshots = {snapshot_id: self._digest(file) for snapshot_id, file in self._snapshots()}
        return MetadataCopy(node=self._node, seconds=seconds, batches=self.batches(), snapshots=snapshots)

    def batches(self) -> tuple[LogBatch, ...]:
        return self._log.batches()

    def records(self, start_offset: int) -> Iterator[tuple[LogBatch, Sequence[MetadataRecord]]]:
        """The records of the log from this offset on."""
        for segment in self._log.segments():
            for index, batch in enumerate(segment.batches):
                if batch.base_offset >= start_offset:
                    yield batch, _records(segment.data(index))

    def topics(self) -> dict[str, TopicOnDisk]:
        """The records of the last snapshot and of the log after it."""
        topics = Topics()
        start = 0
        for (end_offset, _), file in sorted(self._snapshots(), key=lambda one: one[0])[-1:]:
            start = end_offset
            topics.take(_records(file.cached.read(0, file.cached.size)))
        for _, records in self.records(start):
            topics.take(records)
        return topics.by_name()

    def last(self) -> LogBatch | None:
        return self._log.last()

    # ---- as it would be after a loss of power, at least

    def durable_state(self, seconds: float) -> QuorumState | None:
        data = self._disk.durable_bytes(f"{self.directory}/quorum-state")
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

    def durable_end(self) -> LogEnd:
        """The end of the log, or of the snapshot that replaces it."""
        snapshot = max(self.durable_snapshots(), default=(0, 0))
        last = self._log.last_durable()
        if last is None or last.last_offset + 1 < snapshot[0]:
            return LogEnd(offset=snapshot[0], epoch=snapshot[1])
        return LogEnd(offset=last.last_offset + 1, epoch=last.epoch)

    def durable_snapshots(self) -> list[tuple[int, int]]:
        """By end offset and epoch."""
        names = self._disk.durable_names(self.directory)
        return [(int(found[1]), int(found[2])) for name in names if (found := _SNAPSHOT.match(name))]

    def durable_batch(self, end_offset: int) -> LogBatch | None:
        """The batch that ends there."""
        return self._log.durable_batch(end_offset)

    def durably_has(self, batch: LogBatch) -> bool:
        """Whether the batch, or a snapshot that includes it, is durable."""
        if any(end_offset > batch.last_offset for end_offset, _ in self.durable_snapshots()):
            return True
        return self.durable_batch(batch.last_offset + 1) == batch

    # ---- damage

    def shorten(self, batches: int) -> int:
        """Truncates the last batches, durably. Returns the number of truncated offsets."""
        if not self._log.files():
            return 0
        file, segment = self._log.files()[-1], self._log.segments()[-1]
        before = self.last()
        kept = max(0, len(segment.places) - batches)
        file.resize(file.cached.size - sum(size for _, size in segment.places[kept:]), file.modified_ms)
        file.sync()
        after = self.last()
        return (-1 if before is None else before.last_offset) - (-1 if after is None else after.last_offset)

    def flip_bit(self, batches: int, share: float) -> bool:
        """Flips a bit that the CRC covers, `batches` before the end of the log. Returns False if there are no batches.

        Batches that a snapshot includes stay intact: a node does not check them when it starts, nor does Kafka.
        """
        if not self._log.files():
            return False
        file, segment = self._log.files()[-1], self._log.segments()[-1]
        checked_from = max(self.durable_snapshots(), default=(0, 0))[0]
        count = min(batches, sum(batch.base_offset >= checked_from for batch in segment.batches))
        if count:
            position, size = segment.places[-count]
            file.sync()
            covered = size - CRC_COVERS_FROM
            file.flip_bit(position + CRC_COVERS_FROM + int(covered * share), int(share * 1000) % 8)
        return count > 0

    # ---- snapshots

    def _snapshots(self) -> Iterator[tuple[tuple[int, int], FileNode]]:
        files = self._disk.files(self.directory) if self._log.exists else ()
        for path, file in files:
            if found := _SNAPSHOT.match(path.rpartition("/")[2]):
                yield (int(found[1]), int(found[2])), file

    def _digest(self, snapshot: FileNode) -> int:
        """Equal for equal records: the order of records in a snapshot does not matter."""
        content = snapshot.cached
        known = self._digests.get(snapshot)
        if known is None or known[:2] != (content.rewrites, content.size):
            records = sorted(map(encode_record, _records(content.read(0, content.size))))
            known = self._digests[snapshot] = content.rewrites, content.size, crc32(b"".join(records))
        return known[2]


class Topics:
    """The properties of a topic that admin clients change."""

    def __init__(self) -> None:
        self._names: Final[dict[UUID, str]] = {}
        self._partitions: Final[dict[UUID, set[int]]] = {}
        self._configs: Final[dict[str, dict[str, str]]] = {}

    def take(self, records: Sequence[MetadataRecord]) -> set[str]:
        """Returns the topics that changed."""
        changed = set()
        for record in records:
            if isinstance(record, TopicRecord):
                self._names[record.topic_id] = record.name
                self._partitions[record.topic_id] = set()
                changed.add(record.name)
            elif isinstance(record, PartitionRecord):
                self._partitions[record.topic_id].add(record.partition_id)
                changed.add(self._names[record.topic_id])
            elif isinstance(record, RemoveTopicRecord):
                name = self._names.pop(record.topic_id)
                self._configs.pop(name, None)
                del self._partitions[record.topic_id]
                changed.add(name)
            elif isinstance(record, ConfigRecord) and record.resource_type == RESOURCE_TOPIC:
                configs = self._configs.setdefault(record.resource_name, {})
                if record.value is None:
                    configs.pop(record.name, None)
                else:
                    configs[record.name] = record.value
                changed.add(record.resource_name)
        return changed

    def by_name(self) -> dict[str, TopicOnDisk]:
        return {
            name: TopicOnDisk(len(self._partitions[topic_id]), self._configs.get(name, {}))
            for topic_id, name in self._names.items()
        }


def outline(data: bytes) -> LogBatch:
    base_offset, _, epoch, _, _, attributes, last_delta = HEADER.unpack_from(data)
    leader_id, voter_ids = None, None
    if attributes & _IS_CONTROL:
        (header,) = parse_batches(data)
        for message in read_metadata_batch(data, header).control:
            if isinstance(message, LeaderChange | LeaderChangeV0):
                leader_id = message.leader_id
            elif isinstance(message, Voters):
                voter_ids = frozenset(voter.voter_id for voter in message.voters)
    return LogBatch(base_offset, base_offset + last_delta, epoch, crc32(data), leader_id, voter_ids)


def _records(data: bytes) -> list[MetadataRecord]:
    return [record for header in parse_batches(data) for record in read_metadata_batch(data, header).records]

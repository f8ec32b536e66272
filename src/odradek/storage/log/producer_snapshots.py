"""The `.snapshot` files of a partition: its producer state at an offset, in Kafka's format version 1."""

from bisect import bisect_left, insort
from collections.abc import Iterable
from struct import Struct
from struct import error as struct_error

from odradek.base.ports import Disk, DiskFile
from odradek.records.checksum import crc32c
from odradek.storage.log import names
from odradek.storage.log.producer_entry import ProducerEntry, SequencedBatch

_VERSION = 1
_HEAD = Struct(">hIi")
_ENTRY = Struct(">qhiqiqiq")
_CRC_COVERS_FROM = 6


class CorruptSnapshot(Exception):
    """The file is incomplete or corrupt; an older snapshot and the log after it contain the same."""


def encode_snapshot(producers: Iterable[ProducerEntry]) -> bytes:
    entries = [
        _ENTRY.pack(
            producer.producer_id,
            producer.epoch,
            producer.last_sequence,
            producer.last_offset,
            producer.last_offset_delta,
            producer.last_timestamp,
            producer.coordinator_epoch,
            producer.transaction_first_offset,
        )
        for producer in producers
    ]
    covered = b"".join([len(entries).to_bytes(4, "big"), *entries])
    return _HEAD.pack(_VERSION, crc32c(covered), len(entries)) + covered[4:]


def decode_snapshot(data: bytes, path: str) -> list[ProducerEntry]:
    try:
        version, crc, count = _HEAD.unpack_from(data)
    except struct_error:
        raise CorruptSnapshot(f"{path}: {len(data)} bytes are not a producer snapshot") from None
    if version != _VERSION:
        raise CorruptSnapshot(f"{path}: unknown version {version}")
    if crc != crc32c(data[_CRC_COVERS_FROM:]) or len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"{path}: the CRC does not match")
    producers = []
    for fields in _ENTRY.iter_unpack(data[_HEAD.size :]):
        producer_id, epoch, sequence, offset, offset_delta, timestamp, coordinator_epoch, first_offset = fields
        batches = [SequencedBatch(sequence, offset, offset_delta, timestamp)] if offset >= 0 else []
        producers.append(
            ProducerEntry(producer_id, epoch, coordinator_epoch, timestamp, max(first_offset, -1), batches)
        )
    return producers


class ProducerSnapshots:
    """The snapshot files of one directory, by offset."""

    __slots__ = ("_directory", "_disk", "_unsynced", "offsets")

    def __init__(self, disk: Disk, directory: str, offsets: Iterable[int] = ()) -> None:
        self._disk = disk
        self._directory = directory
        self.offsets = sorted(offsets)
        # Files with unsynced data stay open: see `LazyFile`.
        self._unsynced: dict[int, DiskFile] = {}

    def path(self, offset: int) -> str:
        return f"{self._directory}/{names.offset_file(offset, names.SNAPSHOT_SUFFIX)}"

    @property
    def latest_offset(self) -> int | None:
        return self.offsets[-1] if self.offsets else None

    def write(self, offset: int, producers: Iterable[ProducerEntry], *, sync: bool) -> None:
        data = encode_snapshot(sorted(producers, key=lambda producer: producer.producer_id))
        file = self._unsynced.pop(offset, None) or self._disk.open(self.path(offset), create=True)
        file.truncate(0)
        file.write_at(0, data)
        if sync:
            file.sync()
            file.close()
        else:
            self._unsynced[offset] = file
        if offset not in self.offsets:
            insort(self.offsets, offset)

    def sync(self) -> None:
        """Syncs the snapshots that were written without a sync."""
        # Runs concurrently with the writer: a new snapshot is synced next time, a removed one needs no sync.
        for offset in list(self._unsynced):
            file = self._unsynced.pop(offset, None)
            if file is not None:
                file.sync()
                file.close()

    def abandon(self) -> None:
        """Closes the files with unsynced data, which are never synced."""
        self._unsynced.clear()

    def read(self, offset: int) -> list[ProducerEntry]:
        path = self.path(offset)
        return decode_snapshot(self._disk.read_bytes(path), path)

    def remove(self, offset: int) -> None:
        self.forget(offset)
        if self._disk.exists(self.path(offset)):
            self._disk.remove(self.path(offset))

    def mark_deleted(self, offset: int) -> str | None:
        """Renames the snapshot of a segment that is being deleted; returns its new path."""
        path = self.path(offset)
        if offset not in self.offsets:
            return None
        self.forget(offset)
        if not self._disk.exists(path):
            return None
        self._disk.rename(path, path + names.DELETED_SUFFIX)
        return path + names.DELETED_SUFFIX

    def forget(self, offset: int) -> None:
        self._unsynced.pop(offset, None)
        slot = bisect_left(self.offsets, offset)
        if slot < len(self.offsets) and self.offsets[slot] == offset:
            del self.offsets[slot]

    def remove_strays(self, base_offsets: Iterable[int]) -> None:
        """Keeps the snapshots at base offsets of segments, and the highest one, which a clean shutdown wrote."""
        known = set(base_offsets)
        last = max(known, default=-1)
        strays = [offset for offset in self.offsets if offset not in known]
        for offset in strays:
            if offset < last or offset != strays[-1]:
                self.remove(offset)

    def move_to(self, directory: str) -> None:
        self._directory = directory

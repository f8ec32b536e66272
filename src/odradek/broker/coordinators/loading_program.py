"""Reads an internal topic's partition for a coordinator, as the program of a worker.

Of the values of one key, a coordinator needs only the last one, because compaction would remove the others. So the
worker drops those before it, and the event loop decodes and replays what is left. Records of transactions are all
needed, because only a marker decides whether they count. So are tombstones: they also remove what open transactions
have written, and the state that belongs to other keys of a group.
"""

from collections.abc import Generator, Iterator
from heapq import merge
from operator import itemgetter
from struct import Struct
from typing import Final, NamedTuple

from odradek.base.ports import Disk, Message
from odradek.records.batch import NO_PRODUCER_ID, BatchHeader, check_crc
from odradek.records.control import EndTransactionMarker, decode_control
from odradek.records.decode import decode_batch, keys_and_values, records_payload
from odradek.storage.log import names
from odradek.storage.log.batch_file import BatchFile

# With more than that, a window is sent before the rest of the log is read. It bounds the worker's memory.
WINDOW_BYTES_MAX: Final = 32 << 20
MESSAGE_BYTES_MAX: Final = 256 << 10
# The memory of an entry without its key and value, roughly.
_ENTRY_BYTES: Final = 200
# Offset, producer ID, kind, and the sizes of key and value.
_ENTRY: Final = Struct(">qqbii")
_RECORD, _COMMIT, _ABORT = range(3)
_NULL: Final = -1


class LoadedRecord(NamedTuple):
    offset: int
    # -1 outside of transactions.
    producer_id: int
    key: bytes | None
    value: bytes | None


class LoadedMarker(NamedTuple):
    """The end of a transaction."""

    offset: int
    producer_id: int
    commits: bool


class Window:
    """The last value of each key, all records of transactions, all tombstones, and all markers."""

    def __init__(self) -> None:
        # In the order of their offsets.
        self._latest: dict[bytes, LoadedRecord] = {}
        self._all: list[LoadedRecord | LoadedMarker] = []
        self.size_bytes = 0

    def add(self, record: LoadedRecord) -> None:
        key = record.key
        self.size_bytes += _size(record)
        if key is None or record.producer_id != NO_PRODUCER_ID:
            self._all.append(record)
            return
        former = self._latest.pop(key, None)
        if former is not None:
            self.size_bytes -= _size(former)
        if record.value is None:
            self._all.append(record)
        else:
            self._latest[key] = record

    def add_marker(self, marker: LoadedMarker) -> None:
        self._all.append(marker)
        self.size_bytes += _ENTRY_BYTES

    def drain(self) -> Iterator[LoadedRecord | LoadedMarker]:
        """In the order of their offsets."""
        latest, every = self._latest, self._all
        self._latest, self._all, self.size_bytes = {}, [], 0
        return merge(latest.values(), every, key=itemgetter(0)) if every else iter(latest.values())


def _size(record: LoadedRecord) -> int:
    return _ENTRY_BYTES + len(record.key or b"") + len(record.value or b"")


class LoadRequest(NamedTuple):
    directory: str
    # The base offsets and sizes of the segments from the start offset on.
    segments: list[tuple[int, int]]
    start_offset: int
    end_offset: int

    @property
    def input_bytes(self) -> int:
        return sum(size for _, size in self.segments)

    def to_message(self) -> Message:
        return Message(self._asdict())


def run(disk: Disk, message: Message) -> Generator[Message, None, None]:
    request = LoadRequest(**message.fields)
    window = Window()
    for header, data in _batches(disk, request):
        check_crc(data, header)
        _add_all(window, header, data, request.start_offset)
        if window.size_bytes >= WINDOW_BYTES_MAX:
            yield from _messages(window, header.next_offset)
    yield from _messages(window, request.end_offset)


def _batches(disk: Disk, request: LoadRequest) -> Iterator[tuple[BatchHeader, memoryview]]:
    for base_offset, size in request.segments:
        file = BatchFile(disk, f"{request.directory}/{names.offset_file(base_offset, names.LOG_SUFFIX)}", size)
        for _, header, data in file.batches():
            if header.base_offset >= request.end_offset:
                return
            if header.next_offset > request.start_offset:
                yield header, data
        file.handle.release()


def _add_all(window: Window, header: BatchHeader, data: memoryview, start_offset: int) -> None:
    producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
    if header.is_control:
        for record in decode_batch(data, header):
            marker = decode_control(record)
            if record.offset >= start_offset and isinstance(marker, EndTransactionMarker):
                window.add_marker(LoadedMarker(record.offset, producer_id, marker.committed))
        return
    for offset, key, value in keys_and_values(records_payload(data, header), header):
        if offset >= start_offset:
            window.add(LoadedRecord(offset, producer_id, key, value))


def _messages(window: Window, next_offset: int) -> Iterator[Message]:
    """The last one has the offset from which the load can be resumed."""
    parts: list[bytes] = []
    size_bytes = 0
    for entry in window.drain():
        encoded = _encode(entry)
        parts.append(encoded)
        size_bytes += len(encoded)
        if size_bytes >= MESSAGE_BYTES_MAX:
            yield Message({"next_offset": None}, b"".join(parts))
            parts, size_bytes = [], 0
    yield Message({"next_offset": next_offset}, b"".join(parts))


def _encode(entry: LoadedRecord | LoadedMarker) -> bytes:
    if isinstance(entry, LoadedMarker):
        return _ENTRY.pack(entry.offset, entry.producer_id, _COMMIT if entry.commits else _ABORT, _NULL, _NULL)
    offset, producer_id, key, value = entry
    sizes = _NULL if key is None else len(key), _NULL if value is None else len(value)
    return _ENTRY.pack(offset, producer_id, _RECORD, *sizes) + (key or b"") + (value or b"")


def decode_entries(data: bytes) -> Iterator[LoadedRecord | LoadedMarker]:
    """The content of a message, lazily."""
    position, end = 0, len(data)
    while position < end:
        offset, producer_id, kind, key_size, value_size = _ENTRY.unpack_from(data, position)
        key_at = position + _ENTRY.size
        value_at = key_at + max(key_size, 0)
        position = value_at + max(value_size, 0)
        if kind == _RECORD:
            key = None if key_size == _NULL else data[key_at:value_at]
            yield LoadedRecord(offset, producer_id, key, None if value_size == _NULL else data[value_at:position])
        else:
            yield LoadedMarker(offset, producer_id, kind == _COMMIT)

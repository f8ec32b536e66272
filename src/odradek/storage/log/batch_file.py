"""The `.log` file of a segment: consecutive batches, found by walking over their headers.

It has no index; the caller passes the position from which to walk. It caches the positions that readers will need next:
the ends of the last appends, and the ends of reads that reached their size limit.
"""

import contextlib
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from odradek.base.ports import Disk, DiskFile
from odradek.records.batch import HEADER_SIZE, LENGTH_OVERHEAD, BatchHeader, CorruptBatch, parse_header
from odradek.storage.log.file_range import Extent
from odradek.storage.log.index_file import WouldWait
from odradek.storage.log.lazy_file import LazyFile

# The part of a batch header needed to step over it: base offset, length, last offset delta.
_STEP = Struct(">qi11xi")
_BATCH_LENGTH_MIN = HEADER_SIZE - LENGTH_OVERHEAD
_WALK_CHUNK_BYTES = 8192
_SCAN_CHUNK_BYTES = 1 << 20
_PLACES_MAX = 64


class WholeBatches(NamedTuple):
    """The end position of a read, and the base offset of the batch that follows."""

    end: int
    next_offset: int


class BatchFile:
    __slots__ = ("_ends", "_reader_places", "extent", "handle", "size", "used")

    def __init__(self, disk: Disk, path: str, size: int) -> None:
        self.handle = LazyFile(disk, path)
        # The valid size; it grows only after the bytes are written.
        self.size = size
        # Set by every use, cleared by the search for idle files.
        self.used = False
        # From base offsets to the positions of batches, also of the batch that will be appended next.
        self._ends: dict[int, int] = {}
        self._reader_places: dict[int, int] = {}
        self.extent = Extent()

    @property
    def path(self) -> str:
        return self.handle.path

    @path.setter
    def path(self, path: str) -> None:
        self.handle.path = path

    def file(self) -> DiskFile:
        self.used = True
        return self.handle.get()

    def open_file(self) -> DiskFile:
        """Raises WouldWait if the file is not open."""
        if not self.handle.is_open:
            raise WouldWait
        return self.file()

    def create(self) -> None:
        """Creates an empty file, or empties an existing one."""
        self.handle.create()
        self.truncate(0)

    def sync(self) -> None:
        self.used = True
        self.handle.sync()

    # ---- writing

    def append(self, data: bytes | bytearray | memoryview, end_offset: int) -> None:
        """Appends whole batches that end before `end_offset`. After an OSError nothing has changed."""
        file = self.file()
        start = self.size
        try:
            file.write_at(start, data)
        except OSError:
            # If that fails too: only `size` counts, and the next append overwrites the rest.
            with contextlib.suppress(OSError):
                file.truncate(start)
            self.handle.on_write()
            raise
        self.handle.on_write()
        size = start + len(data)
        # Before `size` changes: a reader of the new end then finds its position.
        ends = self._ends
        ends[end_offset] = size
        if len(ends) > _PLACES_MAX:
            # Dictionaries keep insertion order: the first key is the oldest.
            del ends[next(iter(ends))]
        self.size = size

    def note_end(self, end_offset: int) -> None:
        """Records the end offset of a file that was opened from disk."""
        self._ends[end_offset] = self.size

    def truncate(self, size: int) -> None:
        self._ends = {}
        # A concurrent reader may still add a truncated position to the old dictionary, not to this one.
        self._reader_places = {}
        self.size = min(self.size, size)
        self.extent = self.extent.truncate(size)
        if self.file().size() != size:
            self.file().truncate(size)
            self.handle.on_write()

    # ---- reading

    def read(self, position: int, size: int, cached: bool = False) -> bytes:
        """Raises WouldWait if `cached` and the bytes are not in the page cache."""
        if not cached:
            return self.file().read(position, size)
        data = self.open_file().read_cached(position, size)
        if data is None:
            raise WouldWait
        return data

    def end_ranges(self) -> None:
        """The file is gone: readers that still send ranges of it must not keep its space."""
        self.extent = self.extent.truncate(0)

    def known_position(self, offset: int) -> int | None:
        position = self._reader_places.get(offset)
        return self._ends.get(offset) if position is None else position

    def find(self, offset: int, position: int, cached: bool = False) -> int | None:
        """Walks from a batch's position to the first batch that ends at or after `offset`; None if there is none."""
        end = self.size
        chunk = b""
        chunk_at = position
        while position + HEADER_SIZE <= end:
            at = position - chunk_at
            if at + HEADER_SIZE > len(chunk):
                chunk = self.read(position, min(_WALK_CHUNK_BYTES, end - position), cached)
                chunk_at, at = position, 0
                if len(chunk) < HEADER_SIZE:
                    # Truncated during this read.
                    break
            base_offset, length, last_offset_delta = _STEP.unpack_from(chunk, at)
            if length < _BATCH_LENGTH_MIN:
                self._raise_no_batch(position)
            if base_offset + last_offset_delta >= offset:
                return position
            position += length + LENGTH_OVERHEAD
        return None

    def fit(self, start: int, position: int, limit: int, end: int, min_one: bool, cached: bool) -> WholeBatches:
        """The end of the last whole batch before `limit`, walking from `position`, the start of a batch at or after
        `start`.

        `end` is the end of a batch after the limit, up to which the file may be read. With `min_one` the batch at
        `start` fits, however long it is.
        """
        places = self._reader_places
        chunk = b""
        chunk_at = position
        while True:
            # There is always a batch here, because `end` is the end of one.
            if position - chunk_at + HEADER_SIZE > len(chunk):
                chunk = self.read(position, min(_WALK_CHUNK_BYTES, end - position), cached)
                chunk_at = position
                if len(chunk) < HEADER_SIZE:
                    self._raise_no_batch(position)
            next_offset, length, last_offset_delta = _STEP.unpack_from(chunk, position - chunk_at)
            if length < _BATCH_LENGTH_MIN:
                self._raise_no_batch(position)
            following = position + length + LENGTH_OVERHEAD
            if following > limit:
                break
            position = following
        if position == start and min_one:
            position = following
            next_offset += last_offset_delta + 1
        _cache_position(places, next_offset, position)
        return WholeBatches(position, next_offset)

    def headers(self, position: int = 0) -> Iterator[BatchHeader]:
        """Headers from a batch's position on, with their file positions, without reading the records."""
        end = self.size
        chunk = b""
        chunk_at = position
        while position + HEADER_SIZE <= end:
            at = position - chunk_at
            if at + HEADER_SIZE > len(chunk):
                chunk = self.read(position, min(_WALK_CHUNK_BYTES, end - position))
                chunk_at, at = position, 0
                if len(chunk) < HEADER_SIZE:
                    # Truncated during this read.
                    break
            header = parse_header(chunk, at)
            header.position = position
            yield header
            position += header.size

    def batches(self, position: int = 0) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Position, header and bytes of each batch from a batch's position on; `header.position` is 0.

        Raises CorruptBatch if the bytes are not a batch, also for an incomplete batch at the end.
        """
        end = self.size
        chunk_at, chunk = position, memoryview(b"")
        while position < end:
            at = position - chunk_at
            if at + HEADER_SIZE > len(chunk):
                chunk = memoryview(self.read(position, min(_SCAN_CHUNK_BYTES, end - position)))
                chunk_at, at = position, 0
                if len(chunk) < HEADER_SIZE:
                    self._raise_no_batch(position)
            header = parse_header(chunk, at)
            if header.size > end - position:
                self._raise_no_batch(position)
            if at + header.size > len(chunk):
                chunk = memoryview(self.read(position, min(max(_SCAN_CHUNK_BYTES, header.size), end - position)))
                chunk_at, at = position, 0
            header.position = 0
            yield position, header, chunk[at : at + header.size]
            position += header.size

    def _raise_no_batch(self, position: int) -> None:
        raise CorruptBatch(f"{self.path}: no complete record batch at position {position}")


def _cache_position(places: dict[int, int], offset: int, position: int) -> None:
    """Called by readers in any thread."""
    places[offset] = position
    if len(places) > _PLACES_MAX:
        for oldest in list(places)[:-_PLACES_MAX]:
            places.pop(oldest, None)

"""The `.log` file of a segment: batches one behind the other, found by walking over their headers.

It knows no index; whoever has one says from where to walk. Positions that readers will come back to are remembered: the
ends of the last appends, and where reads that were cut short will go on.
"""

import contextlib
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from odradek.base.ports import Disk, DiskFile
from odradek.records.batch import HEADER_SIZE, LENGTH_OVERHEAD, BatchHeader, CorruptBatch, parse_header
from odradek.storage.log.index_file import WouldWait
from odradek.storage.log.lazy_file import LazyFile

# Of a batch's header: base offset, length, last offset delta. All that is needed to step over it.
_STEP = Struct(">qi11xi")
_BATCH_LENGTH_MIN = HEADER_SIZE - LENGTH_OVERHEAD
_WALK_CHUNK_BYTES = 8192
_SCAN_CHUNK_BYTES = 1 << 20
_PLACES_MAX = 64


class WholeBatches(NamedTuple):
    """How far a read may go, and the offset of the batch that follows."""

    end: int
    next_offset: int


class BatchFile:
    __slots__ = ("_ends", "_file", "_reader_places", "size", "used")

    def __init__(self, disk: Disk, path: str, size: int) -> None:
        self._file = LazyFile(disk, path)
        # What counts; moves only once the bytes are written.
        self.size = size
        # Set by every use, cleared by whoever looks for idle files.
        self.used = False
        # From offsets to positions: where the batch with that base offset begins, or will begin.
        self._ends: dict[int, int] = {}
        self._reader_places: dict[int, int] = {}

    @property
    def path(self) -> str:
        return self._file.path

    @path.setter
    def path(self, path: str) -> None:
        self._file.path = path

    def file(self) -> DiskFile:
        self.used = True
        return self._file.get()

    def create(self) -> None:
        """An empty file; what stands there already is emptied."""
        self._file.create()
        self.truncate(0)

    def release(self) -> None:
        self._file.release()

    # ---- writing

    def append(self, data: bytes | bytearray | memoryview, end_offset: int) -> None:
        """Appends whole batches, behind which `end_offset` follows. After an OSError nothing has changed."""
        file = self.file()
        start = self.size
        try:
            file.write_at(start, data)
        except OSError:
            # Should that fail as well: only `size` counts, and the next append writes over what is behind it.
            with contextlib.suppress(OSError):
                file.truncate(start)
            raise
        size = start + len(data)
        # Known before it counts: whoever asks for the new end finds its position.
        ends = self._ends
        ends[end_offset] = size
        if len(ends) > _PLACES_MAX:
            # Dictionaries keep the order of insertion: the first key is the oldest.
            del ends[next(iter(ends))]
        self.size = size

    def note_end(self, end_offset: int) -> None:
        """Tells of a file found on disk which offset follows its last byte."""
        self._ends[end_offset] = self.size

    def truncate(self, size: int) -> None:
        self._ends = {}
        # Whoever is just reading may come to remember a place of what is cut off: not here.
        self._reader_places = {}
        self.size = min(self.size, size)
        if self.file().size() != size:
            self.file().truncate(size)

    # ---- reading

    def read(self, position: int, size: int, cached: bool = False) -> bytes:
        """Raises WouldWait if `cached`, and the bytes are not in memory."""
        if not cached:
            return self.file().read(position, size)
        data = self.file().read_cached(position, size)
        if data is None:
            raise WouldWait
        return data

    def known_position(self, offset: int) -> int | None:
        position = self._reader_places.get(offset)
        return self._ends.get(offset) if position is None else position

    def find(self, offset: int, position: int, cached: bool = False) -> int | None:
        """Walks from a batch's position to the first that reaches to `offset` or beyond; None if none does."""
        end = self.size
        chunk = b""
        chunk_at = position
        while position + HEADER_SIZE <= end:
            at = position - chunk_at
            if at + HEADER_SIZE > len(chunk):
                chunk = self.read(position, min(_WALK_CHUNK_BYTES, end - position), cached)
                chunk_at, at = position, 0
                if len(chunk) < HEADER_SIZE:
                    # Cut off under this reader.
                    break
            base_offset, length, last_offset_delta = _STEP.unpack_from(chunk, at)
            if length < _BATCH_LENGTH_MIN:
                self._raise_no_batch(position)
            if base_offset + last_offset_delta >= offset:
                return position
            position += length + LENGTH_OVERHEAD
        return None

    def fit(self, start: int, position: int, limit: int, end: int, min_one: bool, cached: bool) -> WholeBatches:
        """Where the last whole batch before `limit` ends, walking from `position`, a batch's begin not before `start`.

        `end`, a batch's end beyond the limit, says how far the file may be looked at. With `min_one` the batch at
        `start` counts as fitting, however long it is.
        """
        places = self._reader_places
        chunk = b""
        chunk_at = position
        while True:
            # There is always a batch here: the last one before `end` begins at the limit or before, or behind it.
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
        _remember(places, next_offset, position)
        return WholeBatches(position, next_offset)

    def headers(self, position: int = 0) -> Iterator[BatchHeader]:
        """Headers from a batch's position on, with their positions in the file. Long records are not read."""
        end = self.size
        chunk = b""
        chunk_at = position
        while position + HEADER_SIZE <= end:
            at = position - chunk_at
            if at + HEADER_SIZE > len(chunk):
                chunk = self.read(position, min(_WALK_CHUNK_BYTES, end - position))
                chunk_at, at = position, 0
                if len(chunk) < HEADER_SIZE:
                    # As in `find`.
                    break
            header = parse_header(chunk, at)
            header.position = position
            yield header
            position += header.size

    def batches(self, position: int = 0) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """From a batch's position on: where each lies, its header, and its bytes alone (so `header.position` is 0).

        Raises CorruptBatch where the bytes are no batch; an incomplete one at the end is that, too.
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
        raise CorruptBatch(f"{self.path}: no whole record batch at position {position}")


def _remember(places: dict[int, int], offset: int, position: int) -> None:
    """Of what readers share, in whatever threads they are."""
    places[offset] = position
    if len(places) > _PLACES_MAX:
        for oldest in list(places)[:-_PLACES_MAX]:
            places.pop(oldest, None)

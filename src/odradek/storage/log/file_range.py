"""A range of a `.log` file that is sent later, in parts. It keeps the file open, so that retention, compaction and
deletion do not remove its bytes; a truncation ends it instead, because the next append overwrites them.
"""

from odradek.base.ports import DiskFile
from odradek.records.batch import CorruptBatch


class RangeEnded(Exception):
    """The bytes are no longer those of the log: they were truncated, or their file is gone."""


class Extent:
    """The valid size of a file since a certain time. Each truncation adds the next one to this chain.

    A truncation shortens the extent before it changes the file, and readers check it after they have read: a reader
    never uses bytes that changed, in whichever threads both run.
    """

    __slots__ = ("_following", "_size")

    def __init__(self) -> None:
        # None: not truncated since.
        self._size: int | None = None
        self._following: Extent | None = None

    def truncate(self, size: int) -> "Extent":
        """Returns the extent for later readers."""
        following = self._following
        if following is None:
            following = self._following = Extent()
        self._size = size if self._size is None else min(self._size, size)
        return following

    def covers(self, end: int) -> bool:
        extent: Extent | None = self
        while extent is not None:
            if extent._size is not None and extent._size < end:
                return False
            extent = extent._following
        return True


class FileRange:
    """Knows where its bytes are, and reads them on request. Its length is the number of bytes."""

    __slots__ = ("_extent", "_file", "_position", "_size")

    def __init__(self, file: DiskFile, extent: Extent, position: int, size: int) -> None:
        self._file = file
        self._extent = extent
        self._position = position
        self._size = size

    def __len__(self) -> int:
        return self._size

    def read(self, *, cached: bool) -> bytes | None:
        """All bytes; None if `cached` and some are not in the page cache.

        Raises RangeEnded, and CorruptBatch if the file is too short.
        """
        file = self._file
        data = file.read_cached(self._position, self._size) if cached else file.read(self._position, self._size)
        self._check()
        if data is not None and len(data) < self._size:
            self._raise_too_short(len(data))
        return data

    def read_into(self, start: int, buffer: memoryview) -> int:
        """Fills the buffer with the bytes from `start` on. May block. Raises as `read`."""
        count = self._file.read_into(self._position + start, buffer)
        self._check()
        if count < len(buffer):
            self._raise_too_short(start + count)
        return count

    def read_cached_into(self, start: int, buffer: memoryview) -> int:
        """As `read_into`, but only the first bytes that are in the page cache, perhaps none."""
        count = self._file.read_cached_into(self._position + start, buffer)
        self._check()
        return count

    def _check(self) -> None:
        if not self._extent.covers(self._position + self._size):
            raise RangeEnded("the records were truncated or deleted")

    def _raise_too_short(self, count: int) -> None:
        raise CorruptBatch(f"the file has {count} of {self._size} bytes at position {self._position}")

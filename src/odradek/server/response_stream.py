"""What is left of a response that is sent in chunks: bytes, and ranges of files that are read when it is their turn.

It knows neither sockets nor threads: the sender decides when to read, and into which buffer.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from odradek.base.ports import Executor
from odradek.wire.streamed_response import Part, StreamedRecords


class ReadFailed(Exception):
    """A disk failed to read a range."""

    def __init__(self, records: StreamedRecords, error: OSError) -> None:
        super().__init__(str(error))
        self._records: Final = records
        self._error: Final = error

    def report(self) -> None:
        self._records.on_error(self._error)


class ResponseStream:
    __slots__ = ("_parts", "_start")

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts: Final = deque(part for part in parts if len(part))
        # The bytes of the first part that were read before.
        self._start = 0

    @property
    def is_done(self) -> bool:
        return not self._parts

    @property
    def threads(self) -> Executor | None:
        """Those of the next range; None if the next part is in memory."""
        part = self._parts[0] if self._parts else None
        return part.threads if isinstance(part, StreamedRecords) else None

    def read_into(self, buffer: memoryview, *, cached: bool) -> int:
        """Fills the buffer as far as possible and returns the number of bytes.

        With `cached`, it stops at the first byte that is not in the page cache. Otherwise it may block, and stops at a
        range that other threads have to read. Raises
        RangeEnded or ReadFailed.
        """
        filled = 0
        threads = self.threads
        while self._parts and filled < len(buffer):
            part, start = self._parts[0], self._start
            if filled and not cached and self.threads not in (None, threads):
                break
            room = buffer[filled : filled + len(part) - start]
            if isinstance(part, StreamedRecords):
                count = _read_range(part, start, room, cached)
            else:
                count = len(room)
                room[:] = part[start : start + count]
            filled += count
            if start + count == len(part):
                self._parts.popleft()
                self._start = 0
            else:
                self._start = start + count
                if count < len(room):
                    break
        return filled


def _read_range(records: StreamedRecords, start: int, room: memoryview, cached: bool) -> int:
    try:
        return records.range.read_cached_into(start, room) if cached else records.range.read_into(start, room)
    except OSError as error:
        raise ReadFailed(records, error) from error

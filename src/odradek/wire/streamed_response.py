"""A response whose records are still in files: they are read while it is sent."""

from collections.abc import Callable, Sequence
from typing import Final

from odradek.base.ports import Executor
from odradek.storage.log.file_range import FileRange


class StreamedRecords:
    """A range of a file, the threads that may wait for its disk, and what to do if the disk fails."""

    __slots__ = ("_on_error", "range", "threads")

    def __init__(self, file_range: FileRange, threads: Executor, on_error: Callable[[OSError], None]) -> None:
        self.range: Final = file_range
        self.threads: Final = threads
        self._on_error: Final = on_error

    def __len__(self) -> int:
        return len(self.range)

    def on_error(self, error: OSError) -> None:
        self._on_error(error)


Part = bytes | StreamedRecords


class StreamedResponse:
    __slots__ = ("parts", "size")

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts: Final = parts
        self.size: Final = sum(map(len, parts))

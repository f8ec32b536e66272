"""Reads a Fetch response, or the first bytes of one, without the code that writes it."""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

_FIRST_WITH_SESSIONS: Final = 7
_FIRST_WITH_LOG_START: Final = 5
_FIRST_WITH_PREFERRED_REPLICA: Final = 11
_FIRST_FLEXIBLE: Final = 12
_FIRST_WITH_TOPIC_ID: Final = 13
_LENGTH_AND_CORRELATION_ID: Final = 8
_THROTTLE_BYTES: Final = 4
_SESSION_BYTES: Final = 6
_ABORTED_BYTES: Final = 16
_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_PARTITION: Final = Struct(">ihqq")


class SentRecords(NamedTuple):
    """The records of one partition."""

    topic: str | UUID
    partition: int
    high_watermark: int
    last_stable_offset: int
    start: int
    """The position of the records in the response."""
    size: int
    """As announced."""


class _Incomplete(Exception):
    """The bytes end here."""


def records_of(data: bytes, version: int) -> Iterator[SentRecords]:
    """The partitions with records, up to the end of the bytes. `data` starts with the length of the response."""
    try:
        yield from _Reader(data, is_flexible=version >= _FIRST_FLEXIBLE).read(version)
    except _Incomplete:
        return


class _Reader:
    def __init__(self, data: bytes, *, is_flexible: bool) -> None:
        self._data: Final = data
        self._is_flexible: Final = is_flexible
        self._position = _LENGTH_AND_CORRELATION_ID

    def read(self, version: int) -> Iterator[SentRecords]:
        self._skip_tags()
        self._take(_THROTTLE_BYTES)
        if version >= _FIRST_WITH_SESSIONS:
            self._take(_SESSION_BYTES)
        for _ in range(self._length()):
            topic = self._topic_id() if version >= _FIRST_WITH_TOPIC_ID else self._topic_name()
            for _ in range(self._length()):
                yield from self._partition(topic, version)
                self._skip_tags()
            self._skip_tags()

    def _partition(self, topic: str | UUID, version: int) -> Iterator[SentRecords]:
        index, _, high_watermark, last_stable_offset = _PARTITION.unpack_from(self._data, self._take(_PARTITION.size))
        if version >= _FIRST_WITH_LOG_START:
            self._take(8)
        for _ in range(self._length()):
            self._take(_ABORTED_BYTES)
            self._skip_tags()
        if version >= _FIRST_WITH_PREFERRED_REPLICA:
            self._take(4)
        size = self._length()
        if size > 0:
            yield SentRecords(topic, index, high_watermark, last_stable_offset, self._position, size)
            self._take(size)

    def _take(self, size: int) -> int:
        start = self._position
        if start + size > len(self._data):
            raise _Incomplete
        self._position = start + size
        return start

    def _topic_id(self) -> UUID:
        start = self._take(16)
        return UUID(bytes=bytes(self._data[start : start + 16]))

    def _topic_name(self) -> str:
        size = self._unsigned() - 1 if self._is_flexible else _I16.unpack_from(self._data, self._take(2))[0]
        start = self._take(size)
        return self._data[start : start + size].decode()

    def _length(self) -> int:
        """Of an array or of records; 0 for null."""
        size: int = self._unsigned() - 1 if self._is_flexible else _I32.unpack_from(self._data, self._take(4))[0]
        return max(0, size)

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._take(1)]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _skip_tags(self) -> None:
        if self._is_flexible:
            for _ in range(self._unsigned()):
                self._unsigned()
                self._take(self._unsigned())

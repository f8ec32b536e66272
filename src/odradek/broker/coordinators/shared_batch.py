"""Results of independent commands in one batch: offset commits that arrive together cost one append."""

from typing import Final, Generic

from odradek.base.errors import KafkaError
from odradek.broker.coordinators.batch_writer import BatchWriter, size_max
from odradek.broker.coordinators.shard import A, R, Result
from odradek.records.batch import HEADER_SIZE
from odradek.records.record import Record

# A larger batch would save next to nothing.
SHARED_BATCH_BYTES_MAX: Final = 32_768


class SharedBatch(Generic[A, R]):
    def __init__(self, writer: BatchWriter, max_bytes: int, now_ms: int) -> None:
        self._writer: Final = writer
        self._max_bytes: Final = max_bytes
        self._now_ms: Final = now_ms
        self.results: Final[list[Result[A, R]]] = []
        """Those that share the batch."""
        self.records: Final[list[R]] = []
        self.without_records: Final[list[Result[A, R]]] = []
        """Those that write nothing."""
        self._encoded: Final[list[Record]] = []
        self._size = HEADER_SIZE

    def try_add(self, result: Result[A, R]) -> bool:
        """False: it needs a batch of its own."""
        if not result.records:
            self.without_records.append(result)
            return True
        if result.producer is not None or not result.replays:
            return False
        try:
            encoded = self._writer.encode(result.records, self._now_ms)
        except KafkaError:
            return False
        size = self._size + sum(map(size_max, encoded))
        if size > min(self._max_bytes, SHARED_BATCH_BYTES_MAX):
            return False
        self._size = size
        self._encoded.extend(encoded)
        self.records.extend(result.records)
        self.results.append(result)
        return True

    def batch(self) -> bytearray:
        return self._writer.build(self._encoded, None, self._max_bytes)

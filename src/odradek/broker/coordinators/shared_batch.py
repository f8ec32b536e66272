"""Results of independent commands in one batch: offset commits that arrive together cost one append.

Each result's records are written to the batch as soon as they are added.
"""

from typing import Final, Generic

from odradek.base.record_form import UnwritableRecord
from odradek.broker.coordinators.batch_writer import BatchWriter
from odradek.broker.coordinators.shard import A, R, Result
from odradek.records.batch import HEADER_SIZE

# A larger batch would save next to nothing.
SHARED_BATCH_BYTES_MAX: Final = 32_768


class SharedBatch(Generic[A, R]):
    def __init__(self, writer: BatchWriter, max_bytes: int, now_ms: int) -> None:
        self._writer: Final = writer
        self._max_bytes: Final = max_bytes
        self._payload_bytes_max: Final = min(max_bytes, SHARED_BATCH_BYTES_MAX) - HEADER_SIZE
        self._now_ms: Final = now_ms
        self.results: Final[list[Result[A, R]]] = []
        """Those that share the batch."""
        self.records: Final[list[R]] = []
        self.without_records: Final[list[Result[A, R]]] = []
        """Those that write nothing."""
        self._payload: Final = bytearray()

    def try_add(self, result: Result[A, R]) -> bool:
        """False: it needs a batch of its own."""
        if not result.records:
            self.without_records.append(result)
            return True
        if result.producer is not None or not result.replays:
            return False
        payload = self._payload
        end = len(payload)
        try:
            self._writer.write(payload, result.records, len(self.records), self._now_ms)
        except UnwritableRecord:
            del payload[end:]
            return False
        if len(payload) > self._payload_bytes_max:
            del payload[end:]
            return False
        self.records.extend(result.records)
        self.results.append(result)
        return True

    def batch(self) -> bytearray:
        return self._writer.frame(self._payload, len(self.records), self._now_ms, self._max_bytes)

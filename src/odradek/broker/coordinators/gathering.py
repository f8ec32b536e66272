"""Steps that do not depend on each other, in one batch: what many groups commit at once costs one append."""

from typing import Final, Generic

from odradek.base.errors import KafkaError
from odradek.broker.coordinators.machine import A, R, Step
from odradek.broker.coordinators.writing import BatchWriter, size_max
from odradek.records.batch import HEADER_SIZE
from odradek.records.record import Record

# The next step begins a batch of its own: a larger one saves next to nothing.
TOGETHER_BYTES_MAX: Final = 32_768


class Together(Generic[A, R]):
    def __init__(self, writer: BatchWriter, max_bytes: int, now_ms: int) -> None:
        self._writer: Final = writer
        self._max_bytes: Final = max_bytes
        self._now_ms: Final = now_ms
        self.steps: Final[list[Step[A, R]]] = []
        """That share the batch."""
        self.records: Final[list[R]] = []
        self.silent: Final[list[Step[A, R]]] = []
        """That write nothing."""
        self._encoded: Final[list[Record]] = []
        self._size = HEADER_SIZE

    def takes(self, step: Step[A, R]) -> bool:
        """False: it has to be written by itself."""
        if not step.records:
            self.silent.append(step)
            return True
        if step.producer is not None or not step.replays:
            return False
        try:
            encoded = self._writer.encode(step.records, self._now_ms)
        except KafkaError:
            return False
        size = self._size + sum(map(size_max, encoded))
        if size > min(self._max_bytes, TOGETHER_BYTES_MAX):
            return False
        self._size = size
        self._encoded.extend(encoded)
        self.records.extend(step.records)
        self.steps.append(step)
        return True

    def batch(self) -> bytearray:
        return self._writer.build(self._encoded, None, self._max_bytes)

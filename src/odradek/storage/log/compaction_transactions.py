"""Finds the batches of aborted transactions and the markers that are still needed, in log order.

Compaction stays below the last stable offset, so every transaction it finds is complete.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from typing_extensions import Buffer

from odradek.records.batch import BatchHeader
from odradek.records.control import ControlType, control_type
from odradek.records.decode import decode_batch
from odradek.storage.log.transaction_index import AbortedTransaction


class CleanedTransactions:
    """Batches have to be passed in log order. `retained` collects the aborted transactions that still have data."""

    def __init__(self) -> None:
        # By first offset, which is the log order.
        self._upcoming: list[tuple[int, AbortedTransaction]] = []
        self._aborted: dict[int, AbortedTransaction] = {}
        # Transactions with at least one batch so far.
        self._aborted_with_data: set[int] = set()
        self._committed_with_data: set[int] = set()
        self.retained: list[AbortedTransaction] = []

    def expect(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Adds the aborted transactions of the next segments. Adding one again is harmless."""
        for transaction in aborted:
            heappush(self._upcoming, (transaction.first_offset, transaction))

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a data batch belongs to an aborted transaction."""
        self._reach(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._aborted_with_data.add(header.producer_id)
            return True
        self._committed_with_data.add(header.producer_id)
        return False

    def is_empty_marker(self, header: BatchHeader, data: Buffer) -> bool:
        """Whether a control batch ends a transaction without remaining data, so that it can be removed."""
        self._reach(header.last_offset)
        records = decode_batch(data, header)
        if not records:
            # Retained only for its producer's epoch.
            return True
        kind = control_type(records[0].key)
        producer_id = header.producer_id
        if kind is ControlType.ABORT:
            transaction = self._aborted.pop(producer_id, None)
            if transaction is None or producer_id not in self._aborted_with_data:
                return True
            self._aborted_with_data.discard(producer_id)
            self.retained.append(transaction)
            return False
        if kind is ControlType.COMMIT:
            had_data = producer_id in self._committed_with_data
            self._committed_with_data.discard(producer_id)
            return not had_data
        return False

    def _reach(self, offset: int) -> None:
        while self._upcoming and self._upcoming[0][0] <= offset:
            _, transaction = heappop(self._upcoming)
            self._aborted.setdefault(transaction.producer_id, transaction)

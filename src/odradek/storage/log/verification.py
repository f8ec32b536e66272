"""Verification of transactions (KIP-890): pending checks with the coordinator before a transaction's first batch.

The coordinator may confirm the transaction and end it before the batch is appended: the transaction would then stay
open forever in this partition. So a verification is kept until a batch or a marker of the producer is written, and an
append needs the same object that was confirmed: one that expired or was restarted is no longer valid.
"""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.batch import BatchHeader


class Verification:
    __slots__ = ("epoch", "epochs_rise", "is_confirmed", "lowest_sequence", "since_ms")

    def __init__(self, epoch: int, sequence: int, *, epochs_rise: bool, since_ms: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        """The lowest sequence of the waiting batches: it has to be written first."""
        self.epochs_rise = epochs_rise
        self.since_ms = since_ms
        self.is_confirmed = False
        """For appends that did not request the verification themselves."""

    def widen(self, epoch: int, sequence: int) -> None:
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(sequence, self.lowest_sequence)


class Verifications:
    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def of(self, producer_id: int) -> Verification | None:
        return self._by_producer.get(producer_id)

    def begin(self, producer_id: int, epoch: int, sequence: int, *, epochs_rise: bool, now_ms: int) -> Verification:
        """Returns the pending verification, if there is one."""
        known = self._by_producer.get(producer_id)
        if known is None:
            known = Verification(epoch, sequence, epochs_rise=epochs_rise, since_ms=now_ms)
            self._by_producer[producer_id] = known
        known.widen(epoch, sequence)
        return known

    def check(self, producer_id: int, given: Verification | None, *, by_client: bool) -> None:
        """Raises KafkaError for the first batch of a transaction that was not verified."""
        known = self._by_producer.get(producer_id)
        holds = known is not None and (known is given or (not by_client and known.is_confirmed))
        if not holds:
            raise KafkaError(ErrorCode.invalid_txn_state, "Record was not part of an ongoing transaction")

    def on_written(self, header: BatchHeader) -> None:
        """A batch of a transaction was written: the partition now knows the transaction."""
        known = self._by_producer.get(header.producer_id)
        if known is None:
            return
        # The marker of the previous transaction has the epoch of the next one, whose batches are waiting.
        is_for_next = known.epochs_rise and header.is_control and header.producer_epoch == known.epoch
        if not is_for_next:
            self._by_producer.pop(header.producer_id, None)

    def expire(self, before_ms: int) -> None:
        # Runs in a thread, while verifications are added on the event loop.
        for producer_id, known in list(self._by_producer.items()):
            if known.since_ms <= before_ms:
                self._by_producer.pop(producer_id, None)

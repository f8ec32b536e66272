"""Producers about to write their first batch of a transaction to a partition, while their coordinator is asked.

The coordinator may say yes and end the transaction before the batch is appended: it would then stay open for ever. So
every asking is remembered here until a batch of the producer is written, or a marker, and an append needs the very
asking that was answered: what has been forgotten, or begun anew, holds no more (KIP-890).
"""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.batch import BatchHeader


class Verification:
    __slots__ = ("epoch", "epochs_rise", "is_confirmed", "lowest_sequence", "since_ms")

    def __init__(self, epoch: int, sequence: int, *, epochs_rise: bool, since_ms: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        """Of the batches that are waiting: the first to be written must be this one."""
        self.epochs_rise = epochs_rise
        self.since_ms = since_ms
        self.is_confirmed = False
        """For whoever appends without having asked itself."""

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
        """The one under way, if there is one."""
        known = self._by_producer.get(producer_id)
        if known is None:
            known = Verification(epoch, sequence, epochs_rise=epochs_rise, since_ms=now_ms)
            self._by_producer[producer_id] = known
        known.widen(epoch, sequence)
        return known

    def check(self, producer_id: int, given: Verification | None, *, by_client: bool) -> None:
        """Raises what the producer hears whose batch is the first of a transaction, and was not asked for."""
        known = self._by_producer.get(producer_id)
        holds = known is not None and (known is given or (not by_client and known.is_confirmed))
        if not holds:
            raise KafkaError(ErrorCode.invalid_txn_state, "Record was not part of an ongoing transaction")

    def written(self, header: BatchHeader) -> None:
        """A batch of a transaction: from now on the partition knows by itself."""
        known = self._by_producer.get(header.producer_id)
        if known is None:
            return
        # The marker of the transaction before has the epoch of the next one, which waits already.
        is_for_next = known.epochs_rise and header.is_control and header.producer_epoch == known.epoch
        if not is_for_next:
            self._by_producer.pop(header.producer_id, None)

    def expire(self, before_ms: int) -> None:
        # In a thread, beside the loop, where others begin.
        for producer_id, known in list(self._by_producer.items()):
            if known.since_ms <= before_ms:
                self._by_producer.pop(producer_id, None)

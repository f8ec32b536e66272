"""The state of one producer in a partition: its epoch, its last five batches, its open transaction."""

from typing import NamedTuple

from odradek.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP

BATCHES_KEPT = 5
NO_OFFSET = -1
NO_COORDINATOR_EPOCH = -1
_SEQUENCE_MASK = 0x7FFFFFFF


class SequencedBatch(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        # Sequence numbers wrap from 2³¹−1 to 0.
        return (self.last_sequence - self.offset_delta) & _SEQUENCE_MASK

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry:
    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "producer_id", "transaction_first_offset")

    def __init__(
        self,
        producer_id: int,
        epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = NO_COORDINATOR_EPOCH,
        last_timestamp: int = NO_TIMESTAMP,
        transaction_first_offset: int = NO_OFFSET,
        batches: list[SequencedBatch] | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        # The first offset of the open transaction; -1 if there is none.
        self.transaction_first_offset = transaction_first_offset
        # The last batches of the current epoch, oldest first, at most BATCHES_KEPT.
        self.batches = batches if batches is not None else []

    def copy(self) -> "ProducerEntry":
        return ProducerEntry(
            self.producer_id,
            self.epoch,
            self.coordinator_epoch,
            self.last_timestamp,
            self.transaction_first_offset,
            self.batches.copy(),
        )

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def find_duplicate(self, epoch: int, first_sequence: int, last_sequence: int) -> SequencedBatch | None:
        if epoch == self.epoch:
            for batch in self.batches:
                if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                    return batch
        return None

    def add_batch(self, epoch: int, batch: SequencedBatch) -> None:
        self.enter_epoch(epoch)
        batches = self.batches
        assert not batches or batch.last_offset > batches[-1].last_offset, (
            f"producer {self.producer_id}: batch at {batch.last_offset} after {batches[-1].last_offset}"
        )
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        batches.append(batch)
        self.last_timestamp = batch.timestamp

    def enter_epoch(self, epoch: int) -> None:
        if self.epoch != epoch:
            self.batches.clear()
            self.epoch = epoch

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"ProducerEntry({fields})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProducerEntry):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # mutable

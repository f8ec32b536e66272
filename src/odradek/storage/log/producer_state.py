"""The producer state of one partition: detects duplicates and gaps in idempotent producers' batches, and tracks open
transactions.

An append is staged first: `StagedProducers` checks its batches against copies of the entries and raises KafkaError. It
is applied after the log has the batches. Inactive producers expire.
"""

from enum import Enum
from typing import NamedTuple

from typing_extensions import Buffer

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, BatchHeader
from odradek.records.control import EndTransactionMarker, decode_control
from odradek.records.decode import decode_batch
from odradek.storage.log.producer_entry import NO_OFFSET, ProducerEntry, SequencedBatch
from odradek.storage.log.producer_snapshots import CorruptSnapshot, ProducerSnapshots
from odradek.storage.log.verification import Verification, Verifications

_SEQUENCE_MAX = (1 << 31) - 1
_EPOCH_MAX = (1 << 15) - 1
# Since this transaction.version a marker's epoch is greater than that of the transaction's data.
_MARKERS_BUMP_EPOCH_FROM = 2


class Origin(Enum):
    """The source of an append. A client's batch is fully checked, a coordinator's by epoch, a replicated one not at
    all."""

    CLIENT = 1
    COORDINATOR = 2
    REPLICATION = 3


class CompletedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    # The offset of the marker.
    last_offset: int
    aborted: bool


def is_abort_marker(header: BatchHeader, data: Buffer) -> bool:
    """`data` contains the control batch at `header.position`."""
    records = decode_batch(data, header)
    marker = decode_control(records[0]) if records else None
    return isinstance(marker, EndTransactionMarker) and not marker.committed


class StagedProducers:
    """The changes of one append, checked but not applied yet."""

    __slots__ = ("_origin", "_state", "_transaction_version", "completed", "entries", "in_transactions", "started")

    def __init__(self, state: "ProducerState", origin: Origin, transaction_version: int) -> None:
        self._state = state
        self._origin = origin
        self._transaction_version = transaction_version
        self.entries: dict[int, ProducerEntry] = {}
        self.started: list[tuple[int, int]] = []
        self.completed: list[CompletedTransaction] = []
        self.in_transactions: list[BatchHeader] = []

    def add(self, header: BatchHeader, data: Buffer) -> None:
        """Checks one batch with final offsets. `data` contains it at `header.position`; only markers are read."""
        producer_id = header.producer_id
        entry = self.entries.get(producer_id)
        if entry is None:
            known = self._state.producers.get(producer_id)
            entry = ProducerEntry(producer_id) if known is None else known.copy()
            self.entries[producer_id] = entry
        if header.is_control:
            self._add_marker(entry, header, data)
        else:
            self._add_data(entry, header)
        if header.is_transactional:
            self.in_transactions.append(header)

    def _add_data(self, entry: ProducerEntry, header: BatchHeader) -> None:
        epoch, offset = header.producer_epoch, header.base_offset
        if self._origin is not Origin.REPLICATION:
            if epoch < entry.epoch:
                self._raise_old_epoch(entry, epoch, offset, 0)
            if self._origin is Origin.CLIENT:
                self._check_sequence(entry, epoch, header.base_sequence, offset)
        last_offset = offset + header.last_offset_delta
        timestamp = header.max_timestamp
        entry.add_batch(epoch, SequencedBatch(header.last_sequence, last_offset, header.last_offset_delta, timestamp))
        if header.is_transactional:
            if entry.transaction_first_offset < 0:
                entry.transaction_first_offset = offset
                self.started.append((offset, entry.producer_id))
        elif entry.transaction_first_offset >= 0:
            raise KafkaError(
                ErrorCode.invalid_txn_state,
                f"Expected transactional write from producer {entry.producer_id} at offset {offset} in partition "
                f"{self._state.topic_partition}",
            )

    def _check_sequence(self, entry: ProducerEntry, epoch: int, sequence: int, offset: int) -> None:
        verification = self._state.verifications.of(entry.producer_id)
        if verification is not None:
            self._check_first_sequence(entry, sequence, offset, verification)
        if epoch == entry.epoch:
            last = entry.last_sequence
            if sequence != last + 1 and not (sequence == 0 and last == _SEQUENCE_MAX):
                raise KafkaError(
                    ErrorCode.out_of_order_sequence_number,
                    f"Out of order sequence number for producer {entry.producer_id} at offset {offset} in partition "
                    f"{self._state.topic_partition}: {sequence} (incoming seq. number), {last} (current end sequence "
                    "number)",
                )
        elif sequence != 0 and entry.epoch != NO_PRODUCER_EPOCH:
            # An unknown producer may start with any sequence: its earlier batches may have been deleted.
            raise KafkaError(
                ErrorCode.out_of_order_sequence_number,
                f"Invalid sequence number for new epoch of producer {entry.producer_id}at offset {offset} in partition "
                f"{self._state.topic_partition}: {epoch} (request epoch), {sequence} (seq. number), {entry.epoch} "
                "(current producer epoch)",
            )

    def _check_first_sequence(
        self, entry: ProducerEntry, sequence: int, offset: int, verification: Verification
    ) -> None:
        """Checks a transaction's first batch; several batches may have waited for the same verification."""
        where = f"at offset {offset} in partition {self._state.topic_partition}"
        if verification.epochs_rise and sequence != 0 and not entry.batches:
            raise KafkaError(
                ErrorCode.out_of_order_sequence_number,
                f"Invalid sequence number for producer {entry.producer_id} {where}: {sequence} (incoming seq. number). "
                "Expected sequence 0 for transactions v2 idempotent producer with no existing state.",
            )
        if sequence > verification.lowest_sequence:
            raise KafkaError(
                ErrorCode.out_of_order_sequence_number,
                f"Out of order sequence number for producer {entry.producer_id} {where}: {sequence} (incoming seq. "
                f"number), {verification.lowest_sequence} (earliest seen sequence)",
            )

    def _add_marker(self, entry: ProducerEntry, header: BatchHeader, data: Buffer) -> None:
        records = decode_batch(data, header)
        if not records:
            # Compaction removed the whole transaction and the marker's record.
            return
        marker = decode_control(records[0])
        if not isinstance(marker, EndTransactionMarker):
            return
        offset = header.base_offset
        if self._origin is not Origin.REPLICATION:
            self._check_marker(entry, marker, header.producer_epoch, offset)
        if entry.transaction_first_offset >= 0:
            self.completed.append(
                CompletedTransaction(entry.producer_id, entry.transaction_first_offset, offset, not marker.committed)
            )
        entry.enter_epoch(header.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.transaction_first_offset = NO_OFFSET
        entry.last_timestamp = records[0].timestamp

    def _check_marker(self, entry: ProducerEntry, marker: EndTransactionMarker, epoch: int, offset: int) -> None:
        version = self._transaction_version
        bumped = version >= _MARKERS_BUMP_EPOCH_FROM
        if bumped and epoch == entry.epoch:
            # A retry after completion changes nothing, and the maximum epoch cannot be bumped.
            if entry.transaction_first_offset >= 0 and epoch != _EPOCH_MAX:
                self._raise_old_epoch(entry, epoch, offset, version)
        elif epoch < entry.epoch:
            self._raise_old_epoch(entry, epoch, offset, version)
        if entry.coordinator_epoch > marker.coordinator_epoch:
            raise KafkaError(
                ErrorCode.transaction_coordinator_fenced,
                f"Invalid coordinator epoch for producerId {entry.producer_id} at offset {offset} in partition "
                f"{self._state.topic_partition}: {marker.coordinator_epoch} (zombie), {entry.coordinator_epoch} "
                "(current)",
            )

    def _raise_old_epoch(self, entry: ProducerEntry, epoch: int, offset: int, version: int) -> None:
        sign = "<=" if version >= _MARKERS_BUMP_EPOCH_FROM else "<"
        raise KafkaError(
            ErrorCode.invalid_producer_epoch,
            f"Epoch of producer {entry.producer_id} at offset {offset} in {self._state.topic_partition} is {epoch}, "
            f"which is {sign} the last seen epoch {entry.epoch} (TV{version})",
        )


class ProducerState:
    __slots__ = (
        "_ongoing",
        "_snapshot_offset",
        "_unreplicated",
        "end_offset",
        "expiration_ms",
        "first_undecided_offset",
        "looked_up",
        "producers",
        "snapshots",
        "topic_partition",
        "verifications",
    )

    def __init__(self, topic_partition: TopicPartition, snapshots: ProducerSnapshots, expiration_ms: int) -> None:
        self.topic_partition = topic_partition
        self.snapshots = snapshots
        self.expiration_ms = expiration_ms
        self.producers: dict[int, ProducerEntry] = {}
        self.verifications = Verifications()
        # Producers whose earlier batches were looked up in the log, because snapshots contain only the last one.
        self.looked_up: set[int] = set()
        # Open transactions, from first offset to producer, in ascending order: entries are only added at the end.
        self._ongoing: dict[int, int] = {}
        # The first offset of the oldest one. The writer, perhaps in a thread, updates it; other threads read only this.
        self.first_undecided_offset: int | None = None
        # Completed transactions whose marker may not be committed yet: from first offset to the marker's offset.
        self._unreplicated: dict[int, int] = {}
        # The state covers everything below this offset.
        self.end_offset = 0
        self._snapshot_offset = 0

    @property
    def is_empty(self) -> bool:
        return not self.producers and not self._unreplicated

    # ---- appending

    def find_duplicate(self, header: BatchHeader) -> SequencedBatch | None:
        entry = self.producers.get(header.producer_id)
        if entry is None or header.base_sequence == NO_SEQUENCE:
            return None
        return entry.find_duplicate(header.producer_epoch, header.base_sequence, header.last_sequence)

    def stage(self, origin: Origin, transaction_version: int = 0) -> StagedProducers:
        return StagedProducers(self, origin, transaction_version)

    def apply(self, staged: StagedProducers) -> None:
        self.producers.update(staged.entries)
        for first_offset, producer_id in staged.started:
            assert first_offset >= next(reversed(self._ongoing), 0), (
                f"{self.topic_partition}: transaction starts at {first_offset}, before one that is open already"
            )
            self._ongoing[first_offset] = producer_id
        for completed in staged.completed:
            # In this order, so that a reader in another thread always finds it in one of the two.
            self._unreplicated[completed.first_offset] = completed.last_offset
            self._ongoing.pop(completed.first_offset, None)
        self._update_first_undecided()
        for header in staged.in_transactions:
            self.verifications.on_written(header)

    def stable_offset_after(self, staged: StagedProducers, completed: CompletedTransaction) -> int:
        """The last stable offset after the marker is written, without regard to the high watermark."""
        for first_offset, producer_id in self._ongoing.items():
            if producer_id != completed.producer_id:
                return first_offset
        for first_offset, producer_id in staged.started:
            if producer_id != completed.producer_id and first_offset < completed.last_offset:
                return first_offset
        return completed.last_offset + 1

    def replay(self, header: BatchHeader, data: Buffer) -> list[tuple[CompletedTransaction, int]]:
        """Applies a batch found in the log. Returns the transaction it completed, with the last stable offset after
        it."""
        staged = StagedProducers(self, Origin.REPLICATION, 0)
        # Nothing is rejected here, so the entries are changed in place.
        staged.entries = self.producers
        staged.add(header, data)
        ended = [(one, self.stable_offset_after(staged, one)) for one in staged.completed]
        if staged.started or ended:
            self.apply(staged)
        return ended

    # ---- transactions

    def _update_first_undecided(self) -> None:
        self.first_undecided_offset = next(iter(self._ongoing), None)

    def has_ongoing_transaction(self, producer_id: int, epoch: int) -> bool:
        entry = self.producers.get(producer_id)
        return entry is not None and entry.transaction_first_offset >= 0 and entry.epoch == epoch

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, *, epochs_rise: bool, now_ms: int
    ) -> Verification | None:
        """None: the transaction is already open in this partition and needs no verification."""
        entry = self.producers.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            raise KafkaError(
                ErrorCode.invalid_producer_epoch,
                f"Epoch of producer {producer_id} is {epoch}, which is smaller than the last seen epoch {entry.epoch}",
            )
        if self.has_ongoing_transaction(producer_id, epoch):
            return None
        return self.verifications.begin(producer_id, epoch, sequence, epochs_rise=epochs_rise, now_ms=now_ms)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """The first offset of a transaction that is open, or whose marker is not committed yet.

        The event loop and threads call this while another thread writes.
        """
        undecided = self.first_undecided_offset
        unreplicated = self._unreplicated
        if not unreplicated:
            return undecided
        for first_offset, last_offset in list(unreplicated.items()):
            if last_offset < high_watermark:
                unreplicated.pop(first_offset, None)
        return min((*unreplicated, *(() if undecided is None else (undecided,))), default=None)

    # ---- expiration and truncation

    def is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return entry.transaction_first_offset < 0 and now_ms - entry.last_timestamp >= self.expiration_ms

    def expire(self, now_ms: int) -> None:
        for producer_id in [one.producer_id for one in self.producers.values() if self.is_expired(one, now_ms)]:
            del self.producers[producer_id]
        self.verifications.expire(now_ms - self.expiration_ms)

    def advance_log_start(self, log_start_offset: int) -> None:
        """Removes the transactions below; the producers stay known."""
        for first_offset, last_offset in list(self._unreplicated.items()):
            if last_offset < log_start_offset:
                self._unreplicated.pop(first_offset, None)
        self.end_offset = max(self.end_offset, log_start_offset)
        latest = self.snapshots.latest_offset
        self._snapshot_offset = log_start_offset if latest is None else latest

    def copy(self) -> "ProducerState":
        """A copy to rebuild after a truncation: readers use the original until the copy replaces it."""
        state = ProducerState(self.topic_partition, self.snapshots, self.expiration_ms)
        state.producers = self.producers.copy()
        state.verifications = self.verifications
        state.looked_up = self.looked_up.copy()
        state._ongoing = self._ongoing.copy()
        state.first_undecided_offset = self.first_undecided_offset
        state._unreplicated = self._unreplicated.copy()
        state.end_offset = self.end_offset
        state._snapshot_offset = self._snapshot_offset
        return state

    def clear(self) -> None:
        self.producers.clear()
        self.looked_up.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self._update_first_undecided()

    # ---- snapshots

    def take_snapshot(self, *, sync: bool) -> None:
        """Writes the state at its end offset, unless that snapshot exists."""
        if self.end_offset > self._snapshot_offset:
            self.snapshots.write(self.end_offset, self.producers.values(), sync=sync)
            self._snapshot_offset = self.end_offset

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Restores the newest snapshot within the bounds; the caller replays the log after it."""
        for offset in list(self.snapshots.offsets):
            if offset > log_end_offset or offset <= log_start_offset:
                self.snapshots.remove(offset)
        if log_end_offset == self.end_offset:
            self.advance_log_start(log_start_offset)
            return
        self.clear()
        self._load_snapshot(log_start_offset, now_ms)

    def _load_snapshot(self, log_start_offset: int, now_ms: int) -> None:
        while (offset := self.snapshots.latest_offset) is not None:
            try:
                entries = self.snapshots.read(offset)
            except CorruptSnapshot:
                self.snapshots.remove(offset)
                continue
            for entry in entries:
                if not self.is_expired(entry, now_ms):
                    self.producers[entry.producer_id] = entry
            ongoing = ((one.transaction_first_offset, one.producer_id) for one in self.producers.values())
            self._ongoing.update(sorted(one for one in ongoing if one[0] >= 0))
            self._update_first_undecided()
            self.end_offset = self._snapshot_offset = offset
            return
        self.end_offset = self._snapshot_offset = log_start_offset

    def restart_at(self, offset: int) -> None:
        """Removes all state and all snapshots."""
        self.clear()
        for snapshot in list(self.snapshots.offsets):
            self.snapshots.remove(snapshot)
        self._snapshot_offset = 0
        self.end_offset = offset

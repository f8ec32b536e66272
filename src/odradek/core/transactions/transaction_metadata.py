"""The metadata of a transactional id: its producer, and the state of its transaction.

Metadata is immutable; each `prepare_` function returns the next one, and raises KafkaError where the transition is not
allowed. Each metadata is one record of the log, except for the last producer epoch, which is unknown after a failover.

An epoch may reach `EPOCH_MAX` in a marker, but no client ever gets that epoch, so that one is always left to fence
with. Instead of it, the producer gets a new id when its transaction has ended.
"""

from enum import Enum
from typing import Final, NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.core.transactions.commands import (
    EPOCH_INCREMENTS_SINCE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    ProducerIdentity,
)

EPOCH_MAX: Final = 32_767
LAST_CLIENT_EPOCH: Final = EPOCH_MAX - 1
NO_TIMEOUT: Final = 2**31 - 1
"""For two-phase commit: the external coordinator decides, however late."""


class State(Enum):
    EMPTY = (0, "Empty")
    ONGOING = (1, "Ongoing")
    PREPARE_COMMIT = (2, "PrepareCommit")
    PREPARE_ABORT = (3, "PrepareAbort")
    COMPLETE_COMMIT = (4, "CompleteCommit")
    COMPLETE_ABORT = (5, "CompleteAbort")
    DEAD = (6, "Dead")
    PREPARE_EPOCH_FENCE = (7, "PrepareEpochFence")

    @property
    def number(self) -> int:
        return self.value[0]

    @property
    def title(self) -> str:
        return self.value[1]


BY_NUMBER: Final = {state.number: state for state in State}
BY_TITLE: Final = {state.title: state for state in State}
ENDING: Final = frozenset((State.PREPARE_COMMIT, State.PREPARE_ABORT))
INACTIVE: Final = frozenset((State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT))


VALID_PREVIOUS_STATES: Final = {
    State.EMPTY: INACTIVE,
    State.ONGOING: INACTIVE | {State.ONGOING},
    State.PREPARE_COMMIT: frozenset((State.ONGOING,)),
    # Since transaction version 2 a producer may abort a transaction that has no partitions.
    State.PREPARE_ABORT: INACTIVE | {State.ONGOING},
    State.COMPLETE_COMMIT: frozenset((State.PREPARE_COMMIT,)),
    State.COMPLETE_ABORT: frozenset((State.PREPARE_ABORT,)),
    State.DEAD: INACTIVE,
}


class TransactionMetadata(NamedTuple):
    producer_id: int
    timeout_ms: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch before, if the producer itself requested the current one: it may repeat that request."""
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    """The producer's id after the transaction; if `next_producer_epoch` is set, the producer has it already."""
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIMESTAMP
    update_ms: int = NO_TIMESTAMP
    client_version: int = 0
    """The transaction version of the producer's last request."""

    @property
    def is_kept(self) -> bool:
        """Whether another producer than the one that started the transaction ends it (KIP-939)."""
        return self.next_producer_epoch != NO_PRODUCER_EPOCH

    @property
    def producer(self) -> ProducerIdentity:
        """The id and epoch whose requests are accepted."""
        if self.is_kept:
            return ProducerIdentity(self.next_producer_id, self.next_producer_epoch)
        return ProducerIdentity(self.producer_id, self.producer_epoch)

    @property
    def writer(self) -> ProducerIdentity:
        """The id and epoch of the transaction's records and markers."""
        return ProducerIdentity(self.producer_id, self.producer_epoch)

    @property
    def is_exhausted(self) -> bool:
        return self.producer.producer_epoch >= LAST_CLIENT_EPOCH

    @property
    def has_no_timeout(self) -> bool:
        return self.timeout_ms == NO_TIMEOUT


# ---- the producer's id and epoch


def prepare_epoch_increment(
    now: TransactionMetadata, expected_epoch: int | None, timeout_ms: int, now_ms: int
) -> TransactionMetadata:
    current = now.producer_epoch
    if expected_epoch is None:
        epoch, last = current + 1, NO_PRODUCER_EPOCH
    elif current in (NO_PRODUCER_EPOCH, expected_epoch):
        epoch, last = current + 1, current
    elif expected_epoch == now.last_producer_epoch:
        # A repeated request, whose response was lost. Another producer since then would have reset the last epoch.
        epoch, last = current, expected_epoch
    else:
        raise KafkaError(ErrorCode.producer_fenced)
    return _with_producer(now, ProducerIdentity(now.producer_id, epoch), last, timeout_ms, now_ms)


def prepare_producer_id_rotation(
    now: TransactionMetadata, producer_id: int, timeout_ms: int, now_ms: int, *, keeps_last_epoch: bool
) -> TransactionMetadata:
    last = now.producer_epoch if keeps_last_epoch else NO_PRODUCER_EPOCH
    return _with_producer(now, ProducerIdentity(producer_id, 0), last, timeout_ms, now_ms)


def _with_producer(
    now: TransactionMetadata, producer: ProducerIdentity, last_epoch: int, timeout_ms: int, now_ms: int
) -> TransactionMetadata:
    return now._replace(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        last_producer_epoch=last_epoch,
        previous_producer_id=now.producer_id,
        timeout_ms=timeout_ms,
        state=State.EMPTY,
        partitions=frozenset(),
        start_ms=NO_TIMESTAMP,
        update_ms=now_ms,
    )


def prepare_keep(
    now: TransactionMetadata, successor: ProducerIdentity, timeout_ms: int, now_ms: int
) -> TransactionMetadata:
    """The transaction stays open, and `successor` ends it."""
    return now._replace(
        next_producer_id=successor.producer_id,
        next_producer_epoch=successor.producer_epoch,
        timeout_ms=timeout_ms,
        update_ms=now_ms,
    )


# ---- the state of the transaction


def prepare_add_partitions(
    now: TransactionMetadata, added: frozenset[TopicPartition], client_version: int, now_ms: int
) -> TransactionMetadata:
    return now._replace(
        state=State.ONGOING,
        partitions=now.partitions | added,
        start_ms=now_ms if now.state in INACTIVE else now.start_ms,
        update_ms=now_ms,
        previous_producer_id=now.producer_id,
        client_version=client_version,
    )


def prepare_end(
    now: TransactionMetadata, *, commits: bool, client_version: int, new_producer_id: int, now_ms: int
) -> TransactionMetadata:
    """The decision, before the markers. `new_producer_id` replaces an id whose epochs are exhausted."""
    after = now._replace(
        state=State.PREPARE_COMMIT if commits else State.PREPARE_ABORT,
        # A transaction without partitions has no start time yet.
        start_ms=now_ms if now.state in INACTIVE else now.start_ms,
        update_ms=now_ms,
        previous_producer_id=now.producer_id,
        client_version=client_version,
    )
    if client_version < EPOCH_INCREMENTS_SINCE:
        return after
    after = after._replace(
        producer_epoch=min(now.producer_epoch + 1, EPOCH_MAX), last_producer_epoch=now.producer_epoch
    )
    if not now.is_kept:
        return after._replace(next_producer_id=new_producer_id)
    successor = now.producer
    if new_producer_id != NO_PRODUCER_ID:
        raised = ProducerIdentity(new_producer_id, 0)
    else:
        raised = ProducerIdentity(successor.producer_id, successor.producer_epoch + 1)
    return after._replace(
        next_producer_id=raised.producer_id,
        next_producer_epoch=raised.producer_epoch,
        last_producer_epoch=successor.producer_epoch,
    )


def prepare_completion(now: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """All partitions have their markers."""
    after = now._replace(
        state=State.COMPLETE_COMMIT if now.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT,
        previous_producer_id=now.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_PRODUCER_EPOCH,
        partitions=frozenset(),
        update_ms=now_ms,
    )
    if now.is_kept:
        return after._replace(producer_id=now.next_producer_id, producer_epoch=now.next_producer_epoch)
    if now.client_version >= EPOCH_INCREMENTS_SINCE and now.next_producer_id != NO_PRODUCER_ID:
        return after._replace(producer_id=now.next_producer_id, producer_epoch=0)
    return after


def assert_transition(before: TransactionMetadata, after: TransactionMetadata) -> None:
    """A transaction changes state only as Kafka allows, and a producer id's epoch never decreases."""
    assert before.state in VALID_PREVIOUS_STATES[after.state], f"invalid transition {before.state} to {after.state}"
    assert after.producer_id != before.producer_id or after.producer_epoch >= before.producer_epoch, (
        f"epoch of producer {after.producer_id} decreases from {before.producer_epoch} to {after.producer_epoch}"
    )
    assert after.producer_epoch <= EPOCH_MAX, f"epoch {after.producer_epoch} is out of range"
    assert after.timeout_ms > 0, f"transaction timeout of {after.timeout_ms} ms"
    assert not after.partitions or after.state not in INACTIVE, f"partitions of a transaction in state {after.state}"

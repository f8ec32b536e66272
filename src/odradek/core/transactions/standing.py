"""Where a transactional id stands: who its producer is, and how far its transaction has come.

A standing never changes; each function here gives the one that follows from it, and raises KafkaError where none does.
Every standing is a record of the log. What a record leaves out, the last epoch, is not known after a failover.

An epoch may rise to `EPOCH_MAX` for a marker, but no client is ever given that one: there is always one left to fence
with. Where it would be, the producer gets a new id once its transaction has ended.
"""

from enum import Enum
from typing import Final, NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.core.transactions.commands import (
    EPOCHS_RISE_SINCE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    ProducerIdentity,
)

EPOCH_MAX: Final = 32_767
LAST_CLIENT_EPOCH: Final = EPOCH_MAX - 1
NO_TIMEOUT: Final = 2**31 - 1
"""Of transactions in two phases: they wait for their coordinator, however long."""


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
AT_REST: Final = frozenset((State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT))


class Standing(NamedTuple):
    producer_id: int
    timeout_ms: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The one before, if the producer itself asked for more: the same request may come again."""
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    """Who the producer is once the transaction has ended; with `next_producer_epoch`, who it is already."""
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIMESTAMP
    update_ms: int = NO_TIMESTAMP
    client_version: int = 0
    """The transaction version of the producer's last request."""

    @property
    def was_kept(self) -> bool:
        """Somebody else than who began the transaction is to end it."""
        return self.next_producer_epoch != NO_PRODUCER_EPOCH

    @property
    def producer(self) -> ProducerIdentity:
        """Whose requests are heard."""
        if self.was_kept:
            return ProducerIdentity(self.next_producer_id, self.next_producer_epoch)
        return ProducerIdentity(self.producer_id, self.producer_epoch)

    @property
    def writer(self) -> ProducerIdentity:
        """In whose name the records of the transaction are written, and its markers."""
        return ProducerIdentity(self.producer_id, self.producer_epoch)

    @property
    def is_exhausted(self) -> bool:
        return self.producer.producer_epoch >= LAST_CLIENT_EPOCH

    @property
    def has_no_timeout(self) -> bool:
        return self.timeout_ms == NO_TIMEOUT


# ---- who the producer is


def with_raised_epoch(now: Standing, expected_epoch: int | None, timeout_ms: int, now_ms: int) -> Standing:
    current = now.producer_epoch
    if expected_epoch is None:
        epoch, last = current + 1, NO_PRODUCER_EPOCH
    elif current in (NO_PRODUCER_EPOCH, expected_epoch):
        epoch, last = current + 1, current
    elif expected_epoch == now.last_producer_epoch:
        # It asks again, not having heard the answer. Had another producer come since, the last epoch would be unknown.
        epoch, last = current, expected_epoch
    else:
        raise KafkaError(ErrorCode.producer_fenced)
    return _begun(now, ProducerIdentity(now.producer_id, epoch), last, timeout_ms, now_ms)


def with_new_id(now: Standing, producer_id: int, timeout_ms: int, now_ms: int, *, knows_last: bool) -> Standing:
    last = now.producer_epoch if knows_last else NO_PRODUCER_EPOCH
    return _begun(now, ProducerIdentity(producer_id, 0), last, timeout_ms, now_ms)


def _begun(now: Standing, producer: ProducerIdentity, last_epoch: int, timeout_ms: int, now_ms: int) -> Standing:
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


def kept(now: Standing, successor: ProducerIdentity, timeout_ms: int, now_ms: int) -> Standing:
    """The transaction stays as it is, for somebody else to end."""
    return now._replace(
        next_producer_id=successor.producer_id,
        next_producer_epoch=successor.producer_epoch,
        timeout_ms=timeout_ms,
        update_ms=now_ms,
    )


# ---- how far the transaction has come


def with_partitions(now: Standing, added: frozenset[TopicPartition], client_version: int, now_ms: int) -> Standing:
    return now._replace(
        state=State.ONGOING,
        partitions=now.partitions | added,
        start_ms=now_ms if now.state in AT_REST else now.start_ms,
        update_ms=now_ms,
        previous_producer_id=now.producer_id,
        client_version=client_version,
    )


def ending(now: Standing, *, commits: bool, client_version: int, new_producer_id: int, now_ms: int) -> Standing:
    """Decided, and to be told to all partitions. `new_producer_id` is for an epoch that cannot rise any more."""
    after = now._replace(
        state=State.PREPARE_COMMIT if commits else State.PREPARE_ABORT,
        # Without any partition there was no start.
        start_ms=now_ms if now.state in AT_REST else now.start_ms,
        update_ms=now_ms,
        previous_producer_id=now.producer_id,
        client_version=client_version,
    )
    if client_version < EPOCHS_RISE_SINCE:
        return after
    after = after._replace(
        producer_epoch=min(now.producer_epoch + 1, EPOCH_MAX), last_producer_epoch=now.producer_epoch
    )
    if not now.was_kept:
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


def ended(now: Standing, now_ms: int) -> Standing:
    """All partitions have been told."""
    after = now._replace(
        state=State.COMPLETE_COMMIT if now.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT,
        previous_producer_id=now.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_PRODUCER_EPOCH,
        partitions=frozenset(),
        update_ms=now_ms,
    )
    if now.was_kept:
        return after._replace(producer_id=now.next_producer_id, producer_epoch=now.next_producer_epoch)
    if now.client_version >= EPOCHS_RISE_SINCE and now.next_producer_id != NO_PRODUCER_ID:
        return after._replace(producer_id=now.next_producer_id, producer_epoch=0)
    return after

"""A standing as its record tells it, and back."""

from typing import Final

from odradek.base.ids import TopicPartition, partitions_by_topic
from odradek.base.record_form import UnreadableRecord
from odradek.core.transactions.records import (
    TopicInTransaction,
    TransactionLogKey,
    TransactionLogValue,
    TransactionRecord,
)
from odradek.core.transactions.standing import BY_NUMBER, Standing, State

FLEXIBLE_SINCE: Final = 1
"""The transaction version from which on the second version of the record is written."""


def record_of(transactional_id: str, standing: Standing, transaction_version: int) -> TransactionRecord:
    value = TransactionLogValue(
        producer_id=standing.producer_id,
        previous_producer_id=standing.previous_producer_id,
        next_producer_id=standing.next_producer_id,
        producer_epoch=standing.producer_epoch,
        next_producer_epoch=standing.next_producer_epoch,
        transaction_timeout_ms=standing.timeout_ms,
        transaction_status=standing.state.number,
        transaction_partitions=None if standing.state is State.EMPTY else _by_topic(standing.partitions),
        transaction_last_update_timestamp_ms=standing.update_ms,
        transaction_start_timestamp_ms=standing.start_ms,
        client_transaction_version=standing.client_version,
    )
    version = 1 if transaction_version >= FLEXIBLE_SINCE else 0
    return TransactionRecord(TransactionLogKey(transactional_id=transactional_id), value, version)


def tombstone_of(transactional_id: str) -> TransactionRecord:
    return TransactionRecord(TransactionLogKey(transactional_id=transactional_id), None)


def standing_of(value: TransactionLogValue) -> Standing:
    """Raises UnreadableRecord for a state that does not exist."""
    state = BY_NUMBER.get(value.transaction_status)
    if state is None:
        raise UnreadableRecord(f"a transaction of the unknown state {value.transaction_status}")
    partitions = frozenset(
        TopicPartition(topic.topic, index)
        for topic in (() if state is State.EMPTY else value.transaction_partitions or ())
        for index in topic.partition_ids
    )
    return Standing(
        producer_id=value.producer_id,
        timeout_ms=value.transaction_timeout_ms,
        producer_epoch=value.producer_epoch,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        next_producer_epoch=value.next_producer_epoch,
        state=state,
        partitions=partitions,
        start_ms=value.transaction_start_timestamp_ms,
        update_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )


def _by_topic(partitions: frozenset[TopicPartition]) -> tuple[TopicInTransaction, ...]:
    return tuple(
        TopicInTransaction(topic=topic, partition_ids=indexes)
        for topic, indexes in partitions_by_topic(partitions).items()
    )

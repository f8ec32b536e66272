"""Converts transaction metadata to records of `__transaction_state` and back."""

from typing import Final

from odradek.base.ids import TopicPartition, partitions_by_topic
from odradek.base.record_form import UnreadableRecord
from odradek.core.transactions.records import (
    TopicInTransaction,
    TransactionLogKey,
    TransactionLogValue,
    TransactionRecord,
)
from odradek.core.transactions.transaction_metadata import BY_NUMBER, State, TransactionMetadata

FLEXIBLE_SINCE: Final = 1
"""The transaction version since which version 1 of the record is written."""


def record_of(transactional_id: str, metadata: TransactionMetadata, transaction_version: int) -> TransactionRecord:
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        next_producer_epoch=metadata.next_producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state.number,
        transaction_partitions=None if metadata.state is State.EMPTY else _by_topic(metadata.partitions),
        transaction_last_update_timestamp_ms=metadata.update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.client_version,
    )
    version = 1 if transaction_version >= FLEXIBLE_SINCE else 0
    return TransactionRecord(TransactionLogKey(transactional_id=transactional_id), value, version)


def tombstone_of(transactional_id: str) -> TransactionRecord:
    return TransactionRecord(TransactionLogKey(transactional_id=transactional_id), None)


def metadata_of(value: TransactionLogValue) -> TransactionMetadata:
    """Raises UnreadableRecord for an unknown state."""
    state = BY_NUMBER.get(value.transaction_status)
    if state is None:
        raise UnreadableRecord(f"unknown transaction state {value.transaction_status}")
    partitions = frozenset(
        TopicPartition(topic.topic, index)
        for topic in (() if state is State.EMPTY else value.transaction_partitions or ())
        for index in topic.partition_ids
    )
    return TransactionMetadata(
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

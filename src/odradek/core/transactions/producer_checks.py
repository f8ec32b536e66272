"""Checks whether a request comes from the current producer of a transactional id."""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.transactions.commands import NO_PRODUCER_EPOCH, ProducerIdentity
from odradek.core.transactions.transaction_metadata import ENDING, LAST_CLIENT_EPOCH, TransactionMetadata


def check_producer(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> None:
    """Raises KafkaError, as the next one does."""
    if metadata.producer.producer_id != producer_id:
        raise KafkaError(ErrorCode.invalid_producer_id_mapping)
    if metadata.producer.producer_epoch != producer_epoch:
        raise KafkaError(ErrorCode.producer_fenced)


def check_may_write(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> None:
    check_producer(metadata, producer_id, producer_epoch)
    if metadata.state in ENDING:
        raise KafkaError(ErrorCode.concurrent_transactions)
    if metadata.is_kept:
        # A kept transaction can only be ended.
        raise KafkaError(ErrorCode.invalid_txn_state)


def may_match(metadata: TransactionMetadata, expected: ProducerIdentity) -> bool:
    """Whether a producer with this id may be the current one; the epoch is checked later."""
    return (
        metadata.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == metadata.producer.producer_id
        or (expected.producer_id == metadata.previous_producer_id and expected.producer_epoch >= LAST_CLIENT_EPOCH)
    )

"""Checks whether a producer may end its transaction: Kafka's rules before and since transaction version 2.

Before version 2, the state alone shows whether a request is repeated. Since version 2 every end increments the epoch,
so the epoch shows it: a repeated request carries the epoch before, and a request with the current epoch ends the next
transaction, which may be aborted even if it has no partitions yet.
"""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.transactions.commands import EndTransaction
from odradek.core.transactions.producer_checks import check_producer
from odradek.core.transactions.transaction_metadata import (
    ENDING,
    INACTIVE,
    LAST_CLIENT_EPOCH,
    State,
    TransactionMetadata,
)


def is_repeated_before_epoch_increments(now: TransactionMetadata, command: EndTransaction) -> bool:
    """True: the transaction has ended this way already. False: it may end. Raises KafkaError if neither."""
    check_producer(now, command.producer_id, command.producer_epoch)
    return now.state is not State.ONGOING and _has_result(now, commits=command.commits)


def is_repeated(now: TransactionMetadata, command: EndTransaction) -> bool:
    """As above, since transaction version 2."""
    producer = now.producer
    has_incremented_epoch = producer.producer_epoch == command.producer_epoch + 1
    has_new_id = (
        now.previous_producer_id == command.producer_id
        and command.producer_epoch == LAST_CLIENT_EPOCH
        and producer.producer_epoch == 0
    )
    is_current = producer.producer_epoch == command.producer_epoch
    if producer.producer_id != command.producer_id and not has_new_id:
        raise KafkaError(ErrorCode.invalid_producer_id_mapping)
    if now.state in ENDING:
        is_valid = has_incremented_epoch
    elif now.state in INACTIVE and now.state is not State.EMPTY:
        is_valid = has_incremented_epoch or has_new_id or is_current
    else:
        is_valid = is_current
    if not is_valid:
        raise KafkaError(ErrorCode.producer_fenced)
    if now.state in ENDING or has_incremented_epoch or has_new_id:
        return _has_result(now, commits=command.commits)
    if now.state is not State.ONGOING and command.commits:
        raise KafkaError(ErrorCode.invalid_txn_state)
    return False


def _has_result(now: TransactionMetadata, *, commits: bool) -> bool:
    if now.state is (State.COMPLETE_COMMIT if commits else State.COMPLETE_ABORT):
        return True
    if now.state is (State.PREPARE_COMMIT if commits else State.PREPARE_ABORT):
        raise KafkaError(ErrorCode.concurrent_transactions)
    raise KafkaError(ErrorCode.invalid_txn_state)

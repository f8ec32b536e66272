"""May this producer end this transaction so? Kafka's rules, before and since epochs rise with every end.

Where they do not, the state alone tells whether a request is a repetition. Where they do, the epoch tells: who repeats
itself comes with the epoch before, and who comes with the current one means the next transaction, which may be aborted
even if it has not begun.
"""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.transactions.commands import EndTransaction
from odradek.core.transactions.producer_checks import check_producer
from odradek.core.transactions.standing import AT_REST, ENDING, LAST_CLIENT_EPOCH, Standing, State


def is_repeated_without_rise(now: Standing, command: EndTransaction) -> bool:
    """True: it has ended so already. False: it may be ended. Raises KafkaError if neither."""
    check_producer(now, command.producer_id, command.producer_epoch)
    return now.state is not State.ONGOING and _has_ended_so(now, commits=command.commits)


def is_repeated(now: Standing, command: EndTransaction) -> bool:
    """As above, where every end raises the epoch."""
    producer = now.producer
    has_risen = producer.producer_epoch == command.producer_epoch + 1
    has_new_id = (
        now.previous_producer_id == command.producer_id
        and command.producer_epoch == LAST_CLIENT_EPOCH
        and producer.producer_epoch == 0
    )
    is_current = producer.producer_epoch == command.producer_epoch
    if producer.producer_id != command.producer_id and not has_new_id:
        raise KafkaError(ErrorCode.invalid_producer_id_mapping)
    if now.state in ENDING:
        is_valid = has_risen
    elif now.state in AT_REST and now.state is not State.EMPTY:
        is_valid = has_risen or has_new_id or is_current
    else:
        is_valid = is_current
    if not is_valid:
        raise KafkaError(ErrorCode.producer_fenced)
    if now.state in ENDING or has_risen or has_new_id:
        return _has_ended_so(now, commits=command.commits)
    if now.state is not State.ONGOING and command.commits:
        raise KafkaError(ErrorCode.invalid_txn_state)
    return False


def _has_ended_so(now: Standing, *, commits: bool) -> bool:
    if now.state is (State.COMPLETE_COMMIT if commits else State.COMPLETE_ABORT):
        return True
    if now.state is (State.PREPARE_COMMIT if commits else State.PREPARE_ABORT):
        raise KafkaError(ErrorCode.concurrent_transactions)
    raise KafkaError(ErrorCode.invalid_txn_state)

"""Is who asks the producer of a transactional id, as it stands now?"""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.transactions.commands import NO_PRODUCER_EPOCH, ProducerIdentity
from odradek.core.transactions.standing import ENDING, LAST_CLIENT_EPOCH, Standing


def check_producer(standing: Standing, producer_id: int, producer_epoch: int) -> None:
    """Raises KafkaError, as the next one does."""
    if standing.producer.producer_id != producer_id:
        raise KafkaError(ErrorCode.invalid_producer_id_mapping)
    if standing.producer.producer_epoch != producer_epoch:
        raise KafkaError(ErrorCode.producer_fenced)


def check_may_write(standing: Standing, producer_id: int, producer_epoch: int) -> None:
    check_producer(standing, producer_id, producer_epoch)
    if standing.state in ENDING:
        raise KafkaError(ErrorCode.concurrent_transactions)
    if standing.was_kept:
        # It is there to be ended, and nothing else.
        raise KafkaError(ErrorCode.invalid_txn_state)


def may_be(standing: Standing, expected: ProducerIdentity) -> bool:
    """Whether who says that it was somebody may be the producer; its epoch is looked at later."""
    return (
        standing.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == standing.producer.producer_id
        or (expected.producer_id == standing.previous_producer_id and expected.producer_epoch >= LAST_CLIENT_EPOCH)
    )

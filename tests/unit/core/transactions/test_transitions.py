"""Assertions of the transaction state machine: valid transitions, and epochs that never decrease."""

import pytest

from odradek.base.ids import TopicPartition
from odradek.core.transactions.transaction_metadata import State, TransactionMetadata, assert_transition

PARTITIONS = frozenset((TopicPartition("t", 0),))
ONGOING = TransactionMetadata(7, 1000, producer_epoch=3, state=State.ONGOING, partitions=PARTITIONS)


def test_open_transaction_may_be_prepared_and_completed() -> None:
    prepared = ONGOING._replace(state=State.PREPARE_COMMIT, producer_epoch=4)
    assert_transition(ONGOING, prepared)
    assert_transition(prepared, prepared._replace(state=State.COMPLETE_COMMIT, partitions=frozenset()))


@pytest.mark.parametrize(
    "after",
    [
        ONGOING._replace(state=State.EMPTY, partitions=frozenset()),
        ONGOING._replace(state=State.COMPLETE_COMMIT, partitions=frozenset()),
        ONGOING._replace(producer_epoch=2),
        ONGOING._replace(producer_epoch=40_000),
        ONGOING._replace(timeout_ms=0),
    ],
    ids=["dropped", "not prepared", "epoch decreases", "epoch out of range", "no timeout"],
)
def test_invalid_transition_is_asserted(after: TransactionMetadata) -> None:
    with pytest.raises(AssertionError):
        assert_transition(ONGOING, after)


def test_completed_transaction_has_no_partitions() -> None:
    prepared = ONGOING._replace(state=State.PREPARE_ABORT)
    with pytest.raises(AssertionError, match="partitions of a transaction"):
        assert_transition(prepared, prepared._replace(state=State.COMPLETE_ABORT))


def test_new_producer_id_starts_at_epoch_zero() -> None:
    prepared = ONGOING._replace(state=State.PREPARE_ABORT, next_producer_id=8)
    completed = prepared._replace(state=State.COMPLETE_ABORT, producer_id=8, producer_epoch=0, partitions=frozenset())
    assert_transition(prepared, completed)

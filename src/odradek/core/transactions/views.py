"""What DescribeTransactions and ListTransactions show of transactional ids."""

from collections.abc import Callable, Collection

from odradek.base.errors import ErrorCode
from odradek.core.transactions.commands import DescribedTransaction, ListedTransaction
from odradek.core.transactions.coordinator import TransactionCoordinator
from odradek.core.transactions.standing import BY_TITLE, ENDING, Standing


def describe(coordinator: TransactionCoordinator, transactional_id: str) -> DescribedTransaction:
    transaction = coordinator.get(transactional_id)
    if not transactional_id:
        return DescribedTransaction(transactional_id, ErrorCode.invalid_request)
    if transaction is None:
        return DescribedTransaction(transactional_id, ErrorCode.transactional_id_not_found)
    standing = transaction.standing
    # Of one that ends, those that have not heard of it yet.
    partitions = transaction.unmarked if standing.state in ENDING else standing.partitions
    return DescribedTransaction(
        transactional_id,
        ErrorCode.none,
        standing.state.title,
        standing.timeout_ms,
        standing.start_ms,
        standing.writer,
        tuple(sorted(partitions)),
    )


def list_transactions(
    coordinator: TransactionCoordinator,
    now_ms: int,
    *,
    producer_ids: Collection[int] = (),
    states: Collection[str] = (),
    duration_ms: int = -1,
    matches: Callable[[str], bool] | None = None,
) -> list[ListedTransaction]:
    """Of all, where nothing is named; of none, where only unknown states are."""
    wanted = {BY_TITLE[state] for state in states if state in BY_TITLE}

    def is_wanted(transactional_id: str, standing: Standing) -> bool:
        return (
            (not producer_ids or standing.producer_id in producer_ids)
            and (not states or standing.state in wanted)
            and (duration_ms < 0 or now_ms - standing.start_ms > duration_ms)
            and (matches is None or matches(transactional_id))
        )

    return [
        ListedTransaction(one.transactional_id, one.standing.producer_id, one.standing.state.title)
        for one in coordinator
        if is_wanted(one.transactional_id, one.standing)
    ]


def unknown_states(states: Collection[str]) -> tuple[str, ...]:
    return tuple(state for state in states if state not in BY_TITLE)

"""The results of DescribeTransactions and ListTransactions."""

from collections.abc import Callable, Collection

from odradek.base.errors import ErrorCode
from odradek.core.transactions.commands import DescribedTransaction, ListedTransaction
from odradek.core.transactions.coordinator import TransactionCoordinator
from odradek.core.transactions.transaction_metadata import BY_TITLE, ENDING, TransactionMetadata


def describe(coordinator: TransactionCoordinator, transactional_id: str) -> DescribedTransaction:
    transaction = coordinator.get(transactional_id)
    if not transactional_id:
        return DescribedTransaction(transactional_id, ErrorCode.invalid_request)
    if transaction is None:
        return DescribedTransaction(transactional_id, ErrorCode.transactional_id_not_found)
    metadata = transaction.metadata
    # Of a transaction that is ending, those without a marker.
    partitions = transaction.partitions_without_marker if metadata.state in ENDING else metadata.partitions
    return DescribedTransaction(
        transactional_id,
        ErrorCode.none,
        metadata.state.title,
        metadata.timeout_ms,
        metadata.start_ms,
        metadata.writer,
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
    """An empty filter selects all; a filter with only unknown states selects none."""
    wanted = {BY_TITLE[state] for state in states if state in BY_TITLE}

    def is_wanted(transactional_id: str, metadata: TransactionMetadata) -> bool:
        return (
            (not producer_ids or metadata.producer_id in producer_ids)
            and (not states or metadata.state in wanted)
            and (duration_ms < 0 or now_ms - metadata.start_ms > duration_ms)
            and (matches is None or matches(transactional_id))
        )

    return [
        ListedTransaction(one.transactional_id, one.metadata.producer_id, one.metadata.state.title)
        for one in coordinator
        if is_wanted(one.transactional_id, one.metadata)
    ]


def unknown_states(states: Collection[str]) -> tuple[str, ...]:
    return tuple(state for state in states if state not in BY_TITLE)

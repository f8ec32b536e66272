"""What is done in transactions while the cluster is harmed, whatever client does it: how much, and how it ends."""

from typing import Final

LEDGER: Final = "ledger"
COPIES: Final = "copies"
PARTITIONS: Final = 4
"""Of each."""
GROUP: Final = "copiers"

WRITE_INTERVAL_S: Final = 0.15
"""Between two transactions of a writer."""
RECORDS_OF_A_TRANSACTION: Final = (2, 3, 5)
"""In turn: across as many partitions, and the last with two records in one of them."""
COPIED_AT_ONCE_MAX: Final = 50
ABORT_EVERY: Final = 4
"""Transactions of a writer; every so many it aborts on purpose."""
ABANDON_EVERY: Final = 23
"""And every so many it leaves as they are, as a process that died would: its successor ends them."""
COPIERS_ABORT_EVERY: Final = 5
TRANSACTION_TIMEOUT_MS: Final = 60_000
"""Longer than any fault: whoever is at work must not be fenced."""
SESSION_TIMEOUT_MS: Final = 10_000


def topic_and_partition(place: int) -> tuple[str, int]:
    return (LEDGER if place < PARTITIONS else COPIES), place % PARTITIONS


def places_of(number: int) -> tuple[int, ...]:
    """Where the records of a writer's transaction of that number go."""
    count = RECORDS_OF_A_TRANSACTION[number % len(RECORDS_OF_A_TRANSACTION)]
    return tuple((number + index) % PARTITIONS for index in range(count))

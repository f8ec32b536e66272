"""The transactional load during the faults, which is the same for every client library."""

from typing import Final

LEDGER: Final = "ledger"
COPIES: Final = "copies"
PARTITIONS: Final = 4
"""Number of partitions of each topic."""
GROUP: Final = "copiers"

WRITE_INTERVAL_S: Final = 0.15
"""Pause between two transactions of a writer."""
RECORDS_OF_A_TRANSACTION: Final = (2, 3, 5)
"""Cyclic. Each record goes to another partition, except that five records use one of the four partitions twice."""
COPIED_AT_ONCE_MAX: Final = 50
ABORT_EVERY: Final = 4
"""A writer aborts every n-th transaction on purpose."""
ABANDON_EVERY: Final = 23
"""A writer abandons every n-th transaction, as a crashed process would; the next producer aborts it."""
COPIERS_ABORT_EVERY: Final = 5
TRANSACTION_TIMEOUT_MS: Final = 60_000
"""Longer than any fault, so that active writers are not fenced."""
SESSION_TIMEOUT_MS: Final = 10_000


def topic_and_partition(place: int) -> tuple[str, int]:
    return (LEDGER if place < PARTITIONS else COPIES), place % PARTITIONS


def places_of(number: int) -> tuple[int, ...]:
    """The places of the records of a writer's n-th transaction."""
    count = RECORDS_OF_A_TRANSACTION[number % len(RECORDS_OF_A_TRANSACTION)]
    return tuple((number + index) % PARTITIONS for index in range(count))

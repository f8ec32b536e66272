"""In how many ways records are copied under bounces: those of Apache Kafka's own system tests of transactions.

Sixteen of `transactions_test.py`, where every copier has a partition of its own, and four of
`group_mode_transactions_test.py`, where the copiers share nine partitions as a group.
"""

from dataclasses import dataclass
from itertools import product
from typing import Final

BROKERS: Final = "brokers"
CLIENTS: Final = "clients"


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    is_hard: bool
    """kill -9, or an end that it is asked for."""
    target: str
    """Who is bounced: BROKERS or CLIENTS."""
    one_partition: bool
    """So that there is one order of all records; else two, with a copier each."""
    with_group_metadata: bool
    """Offsets are committed with the member's generation and not with the group's name alone (KIP-447)."""
    is_group: bool = False
    """The copiers subscribe, and partitions move between them."""

    @property
    def name(self) -> str:
        if self.is_group:
            form = "group"
        else:
            form = f"{'one' if self.one_partition else 'two'}-{'metadata' if self.with_group_metadata else 'name'}"
        return f"{'hard' if self.is_hard else 'clean'}-{self.target}-{form}"

    @property
    def copiers(self) -> int:
        if self.is_group:
            return 3
        return 1 if self.one_partition else 2

    @property
    def input_partitions(self) -> int:
        return 9 if self.is_group else self.copiers

    @property
    def output_partitions(self) -> int:
        if self.is_group:
            return 9
        return 1 if self.one_partition else 3


ASSIGNED: Final = tuple(
    Combination(is_hard=is_hard, target=target, one_partition=one_partition, with_group_metadata=with_group_metadata)
    for is_hard, target, one_partition, with_group_metadata in product(
        (True, False), (BROKERS, CLIENTS), (True, False), (True, False)
    )
)
IN_A_GROUP: Final = tuple(
    Combination(is_hard=is_hard, target=target, one_partition=False, with_group_metadata=True, is_group=True)
    for is_hard, target in product((True, False), (BROKERS, CLIENTS))
)
ALL: Final = (*ASSIGNED, *IN_A_GROUP)
BY_NAME: Final = {combination.name: combination for combination in ALL}

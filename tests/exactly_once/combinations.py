"""The combinations of Apache Kafka's system tests of transactions.

Sixteen come from `transactions_test.py`, where every copier has its own partition, and four from
`group_mode_transactions_test.py`, where the copiers share nine partitions as a consumer group.
"""

from dataclasses import dataclass
from itertools import product
from typing import Final

BROKERS: Final = "brokers"
CLIENTS: Final = "clients"


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    is_hard: bool
    """kill -9 instead of a clean shutdown."""
    target: str
    """What is restarted: BROKERS or CLIENTS."""
    one_partition: bool
    """One input partition with a total order of all records, or two with a copier each."""
    with_group_metadata: bool
    """Whether offsets are committed with the member's generation instead of the group ID alone (KIP-447)."""
    is_group: bool = False
    """Whether the copiers subscribe as a consumer group."""

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
GROUPED: Final = tuple(
    Combination(is_hard=is_hard, target=target, one_partition=False, with_group_metadata=True, is_group=True)
    for is_hard, target in product((True, False), (BROKERS, CLIENTS))
)
ALL: Final = (*ASSIGNED, *GROUPED)
BY_NAME: Final = {combination.name: combination for combination in ALL}

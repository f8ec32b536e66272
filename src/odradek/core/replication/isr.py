"""An ISR change: what the leader proposes in AlterPartition and what the controller returns."""

from typing import Final, NamedTuple

UNKNOWN_BROKER_EPOCH: Final = -1
"""The replica has not fetched from this leader yet. The controller does not compare this value."""


class IsrMember(NamedTuple):
    broker_id: int
    broker_epoch: int


class IsrProposal(NamedTuple):
    """One partition of an AlterPartition request. Its leader recovery state is always RECOVERED."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[IsrMember, ...]


class CommittedIsr(NamedTuple):
    """One partition of a successful AlterPartition response."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]

"""A change of the in-sync replicas, as the leader asks the controller for it and as the controller answers."""

from typing import Final, NamedTuple

UNKNOWN_BROKER_EPOCH: Final = -1
"""Of a replica that has not fetched from this leader yet: the controller then does not compare it."""


class IsrMember(NamedTuple):
    broker_id: int
    broker_epoch: int


class IsrProposal(NamedTuple):
    """What AlterPartition carries of one partition. The leader of such a proposal has always recovered."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[IsrMember, ...]


class CommittedIsr(NamedTuple):
    """The controller's answer when it has done so."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]

"""A member of a consumer group: what it wants, what it has, and how far it has come.

It is a value: a step makes the member anew, writes a record of what has changed, and the record puts it in its place.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Final
from uuid import UUID

from odradek.core.groups.records import ClassicMemberMetadata

Partitions = Mapping[UUID, Mapping[int, int]]
"""By topic and partition: the epoch since which a member has had it without a break."""
NO_PARTITIONS: Final[Partitions] = MappingProxyType({})


class MemberState(IntEnum):
    STABLE = 0
    """It has what the assignment of its epoch wants it to have."""
    UNREVOKED_PARTITIONS = 1
    """It has been asked to give up partitions, and has not said yet that it did."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others have not given up yet."""
    UNKNOWN = 127
    """Of a later release."""

    @classmethod
    def _missing_(cls, value: object) -> "MemberState":
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = ""
    assignor: str | None = None
    assigned: Partitions = field(default_factory=lambda: NO_PARTITIONS)
    """What it may read."""
    revoking: Partitions = field(default_factory=lambda: NO_PARTITIONS)
    """What it may commit offsets of for the last time."""
    classic: ClassicMemberMetadata | None = None
    """If it is a member by the classic protocol."""

    @property
    def speaks_classic(self) -> bool:
        return self.classic is not None

    @property
    def session_timeout_ms(self) -> int | None:
        """Its own, as members have it by the classic protocol only."""
        return None if self.classic is None else self.classic.session_timeout_ms

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def epoch_of(self, topic_id: UUID, partition: int) -> int | None:
        """Since when it has had the partition; None if it does not."""
        for partitions in (self.assigned, self.revoking):
            epoch = partitions.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

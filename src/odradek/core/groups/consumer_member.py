"""A member of a consumer group: subscription, assigned partitions, and epoch.

It is immutable: a command creates a new member and writes records of the changes, whose replay replaces the member.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Final
from uuid import UUID

from odradek.core.groups.records import ClassicMemberMetadata

Partitions = Mapping[UUID, Mapping[int, int]]
"""By topic and partition: the epoch since which the member has owned it continuously."""
NO_PARTITIONS: Final[Partitions] = MappingProxyType({})


class MemberState(IntEnum):
    STABLE = 0
    """It owns its target assignment of its epoch."""
    UNREVOKED_PARTITIONS = 1
    """It has to revoke partitions, and has not confirmed that yet."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others have not revoked yet."""
    UNKNOWN = 127
    """A state of a later release."""

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
    """The partitions that it may read."""
    revoking: Partitions = field(default_factory=lambda: NO_PARTITIONS)
    """The partitions that it has to revoke; it may still commit their offsets."""
    classic: ClassicMemberMetadata | None = None
    """Set for a member that uses the classic protocol."""

    @property
    def is_classic(self) -> bool:
        return self.classic is not None

    @property
    def session_timeout_ms(self) -> int | None:
        """Only members that use the classic protocol have their own."""
        return None if self.classic is None else self.classic.session_timeout_ms

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def epoch_of(self, topic_id: UUID, partition: int) -> int | None:
        """The epoch since which it has owned the partition; None if it does not."""
        for partitions in (self.assigned, self.revoking):
            epoch = partitions.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

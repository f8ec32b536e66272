"""What an assignor is told: who reads what, how many partitions there are, and who has which at present."""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

Assignment = dict[str, dict[UUID, set[int]]]
"""Partitions by member and topic."""


class AssignorFailed(ValueError):
    """There is no assignment, and the group keeps the one it has."""


class MemberSpec(NamedTuple):
    topic_ids: frozenset[UUID]
    instance_id: str | None = None
    assigned: Mapping[UUID, frozenset[int]] = {}
    """As the last assignment wanted it."""


class GroupSpec(NamedTuple):
    members: Mapping[str, MemberSpec]
    """By id. Where shares cannot be equal, their order decides."""
    partition_counts: Mapping[UUID, int]
    is_homogeneous: bool
    """All subscribe to the same topics, those included that are not there."""

    def partition_count(self, topic_id: UUID) -> int:
        count = self.partition_counts.get(topic_id)
        if count is None:
            raise AssignorFailed(
                f"Members are subscribed to topic {topic_id} which doesn't exist in the topic metadata."
            )
        return count

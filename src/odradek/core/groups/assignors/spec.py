"""The input of an assignor: subscriptions, numbers of partitions, and the current assignment."""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

Assignment = dict[str, dict[UUID, set[int]]]
"""Partitions by member and topic."""


class AssignorFailed(ValueError):
    """No assignment is possible; the group keeps its current one."""


class MemberSpec(NamedTuple):
    topic_ids: frozenset[UUID]
    instance_id: str | None = None
    assigned: Mapping[UUID, frozenset[int]] = {}
    """Its partitions in the last target assignment."""


class GroupSpec(NamedTuple):
    members: Mapping[str, MemberSpec]
    """By id. Their order decides which members get one partition more."""
    partition_counts: Mapping[UUID, int]
    is_homogeneous: bool
    """Whether all members subscribe to the same topics, unknown topics included."""

    def partition_count(self, topic_id: UUID) -> int:
        count = self.partition_counts.get(topic_id)
        if count is None:
            raise AssignorFailed(
                f"Members are subscribed to topic {topic_id} which doesn't exist in the topic metadata."
            )
        return count

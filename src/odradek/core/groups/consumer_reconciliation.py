"""Reconciles a member with its target assignment, one heartbeat at a time.

First the member revokes partitions, and keeps its epoch until it has confirmed that. Then it enters the assignment
epoch and gets the free partitions; it gets the others when their owners have revoked them. So a member waits only for
the owners of its new partitions, and no partition has two owners.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.groups.commands import TopicIdPartitions
from odradek.core.groups.consumer_member import NO_PARTITIONS, ConsumerMember, MemberState, Partitions

Target = Mapping[UUID, Collection[int]]
"""The target assignment of a member, by topic."""


class TargetAssignment(NamedTuple):
    epoch: int
    partitions: Target


class Reconciliation(NamedTuple):
    member: ConsumerMember
    target: TargetAssignment
    topic_ids: Collection[UUID]
    """The target assignment, restricted to the topics that the member subscribes to."""
    has_topics: bool
    """Whether it subscribes to any topics, unknown ones included."""
    subscription_changed: bool
    is_free: Callable[[UUID, int], bool]
    owned: Sequence[TopicIdPartitions] | None
    """The owned partitions that the member reports, if it does."""

    def next(self) -> ConsumerMember:
        """Returns the same object if there is nothing to do."""
        member = self.member
        match member.state:
            case MemberState.STABLE:
                if member.epoch != self.target.epoch:
                    return self._towards_target(member.epoch)
                return self._within_subscription()
            case MemberState.UNREVOKED_PARTITIONS:
                if self._owns_any_of(member.revoking):
                    return self._within_subscription()
                return self._towards_target(member.epoch)
            case MemberState.UNRELEASED_PARTITIONS:
                return self._towards_target(member.epoch)
            case _:
                if self.owned is None or self.owned:
                    raise KafkaError(
                        ErrorCode.fenced_member_epoch,
                        "The consumer group member is in a unknown state. "
                        "The member must abandon all its partitions and rejoin.",
                    )
                return self._towards_target(self.target.epoch)

    def _owns_any_of(self, partitions: Partitions) -> bool:
        if self.owned is None:
            return True
        return any(
            partition in partitions.get(one.topic_id, NO_PARTITIONS)
            for one in self.owned
            for partition in one.partitions
        )

    def _within_subscription(self) -> ConsumerMember:
        """Topics that it has unsubscribed from are revoked even before there is a new assignment."""
        member = self.member
        dropped = {topic_id: held for topic_id, held in member.assigned.items() if topic_id not in self.topic_ids}
        is_new = member.previous_epoch < 0
        if not self.subscription_changed or (not dropped and (self.has_topics or member.revoking or is_new)):
            return member
        kept = {topic_id: held for topic_id, held in member.assigned.items() if topic_id not in dropped}
        revoking = {topic_id: dict(held) for topic_id, held in member.revoking.items()}
        for topic_id, held in dropped.items():
            revoking.setdefault(topic_id, {}).update(held)
        if revoking and self._owns_any_of(revoking):
            return replace(
                member,
                state=MemberState.UNREVOKED_PARTITIONS,
                previous_epoch=member.epoch,
                assigned=kept,
                revoking=revoking,
            )
        return replace(member, previous_epoch=member.epoch, assigned=kept)

    def _towards_target(self, epoch: int) -> ConsumerMember:
        member = self.member
        kept: dict[UUID, dict[int, int]] = {}
        to_revoke: dict[UUID, dict[int, int]] = {}
        gained: dict[UUID, list[int]] = {}
        is_waiting = False
        for topic_id in dict.fromkeys((*self.target.partitions, *member.assigned)):
            target = self.target.partitions.get(topic_id, ()) if topic_id in self.topic_ids else ()
            held = member.assigned.get(topic_id, {})
            still_its_own = member.revoking.get(topic_id, {})
            for partition, since in held.items():
                (kept if partition in target else to_revoke).setdefault(topic_id, {})[partition] = since
            for partition in target:
                if partition in held:
                    continue
                if partition in still_its_own or self.is_free(topic_id, partition):
                    gained.setdefault(topic_id, []).append(partition)
                else:
                    is_waiting = True
        if to_revoke and self._owns_any_of(to_revoke):
            return replace(
                member,
                state=MemberState.UNREVOKED_PARTITIONS,
                epoch=epoch,
                previous_epoch=member.epoch,
                assigned=kept,
                revoking=to_revoke,
            )
        for topic_id, partitions in gained.items():
            kept.setdefault(topic_id, {}).update(dict.fromkeys(partitions, self.target.epoch))
        return replace(
            member,
            state=MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
            epoch=self.target.epoch,
            previous_epoch=member.epoch,
            assigned=kept,
            revoking=NO_PARTITIONS,
        )

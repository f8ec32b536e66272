"""How a member comes from what it has to what it is to have, one heartbeat at a time.

First it gives up what is no longer its own, and stays in its epoch until it has said so. Then it enters the epoch of
the assignment and gets what is free; what others have not given up yet it gets later. So nobody waits for anybody but
for whom it takes partitions from, and no partition has two readers.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.groups.commands import TopicIdPartitions
from odradek.core.groups.consumer_member import NO_PARTITIONS, ConsumerMember, MemberState, Partitions

Target = Mapping[UUID, Collection[int]]
"""By topic: the partitions that a member is to have."""


class Wanted(NamedTuple):
    epoch: int
    partitions: Target


class Reconciliation(NamedTuple):
    member: ConsumerMember
    wanted: Wanted
    topic_ids: Collection[UUID]
    """Of the topics that the member reads: of others it is to have nothing, whatever the assignment says."""
    has_topics: bool
    """It reads any, if only some that are not there."""
    subscription_changed: bool
    is_free: Callable[[UUID, int], bool]
    owned: Sequence[TopicIdPartitions] | None
    """What the member says it has, if it says."""

    def next(self) -> ConsumerMember:
        """The same member, if there is nothing to do."""
        member = self.member
        match member.state:
            case MemberState.STABLE:
                if member.epoch != self.wanted.epoch:
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
                return self._towards_target(self.wanted.epoch)

    def _owns_any_of(self, partitions: Partitions) -> bool:
        if self.owned is None:
            return True
        return any(
            partition in partitions.get(one.topic_id, NO_PARTITIONS)
            for one in self.owned
            for partition in one.partitions
        )

    def _within_subscription(self) -> ConsumerMember:
        """Topics that it has just given up are not its own any more, even before there is a new assignment."""
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
        for topic_id in dict.fromkeys((*self.wanted.partitions, *member.assigned)):
            wanted = self.wanted.partitions.get(topic_id, ()) if topic_id in self.topic_ids else ()
            held = member.assigned.get(topic_id, {})
            still_its_own = member.revoking.get(topic_id, {})
            for partition, since in held.items():
                (kept if partition in wanted else to_revoke).setdefault(topic_id, {})[partition] = since
            for partition in wanted:
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
            kept.setdefault(topic_id, {}).update(dict.fromkeys(partitions, self.wanted.epoch))
        return replace(
            member,
            state=MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
            epoch=self.wanted.epoch,
            previous_epoch=member.epoch,
            assigned=kept,
            revoking=NO_PARTITIONS,
        )

"""Updates a consumer group and one of its members at every heartbeat: group epoch, target assignment, member.

Joins of members that use the classic protocol take the same steps.
"""

from collections.abc import Sequence
from typing import NamedTuple

from odradek.core.groups.commands import TopicIdPartitions
from odradek.core.groups.consumer_deadlines import ConsumerDeadlines
from odradek.core.groups.consumer_group import ConsumerGroup
from odradek.core.groups.consumer_member import ConsumerMember, MemberState
from odradek.core.groups.consumer_reconciliation import Reconciliation, TargetAssignment
from odradek.core.groups.consumer_records import (
    current_record,
    epoch_record,
    partition_metadata_tombstone,
    subscription_record,
)
from odradek.core.groups.consumer_regexes import ConsumerRegexes, RegexChange
from odradek.core.groups.consumer_subscriptions import regex_of, topics_of
from odradek.core.groups.consumer_target import ConsumerTarget
from odradek.core.groups.coordinator_result import CoordinatorResult
from odradek.core.groups.rebalances import Rebalance
from odradek.core.groups.settings import UNBOUNDED
from odradek.core.groups.topics import TopicHashes
from odradek.core.security.access import Access


class Subscribed(NamedTuple):
    """The group epoch after an update of a member's subscription."""

    epoch: int
    has_changed: bool
    """Whether the member's topic names or its expression have changed."""


class ConsumerProgress:
    def __init__(
        self,
        regexes: ConsumerRegexes,
        target: ConsumerTarget,
        hashes: TopicHashes,
        deadlines: ConsumerDeadlines,
    ) -> None:
        self._regexes = regexes
        self._target = target
        self._hashes = hashes
        self._deadlines = deadlines

    def update_member(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        owned: Sequence[TopicIdPartitions] | None,
        access: Access,
        now_ms: int,
        result: CoordinatorResult,
    ) -> ConsumerMember:
        subscribed = self.subscribe(group, member, updated, access, now_ms, result)
        target = self._target.update(group, subscribed.epoch, member, updated, now_ms, result)
        return self.reconcile(group, updated, target, owned, subscribed, now_ms, result)

    # ---- subscriptions

    def subscribe(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        access: Access,
        now_ms: int,
        result: CoordinatorResult,
    ) -> Subscribed:
        names_changed = False
        if updated is not member and updated != member:
            result.records.append(subscription_record(group.group_id, updated))
            names_changed = updated.topic_names != member.topic_names
        regex_change = self._regexes.change(group, member, updated, access, now_ms, result)
        # A classic member has no regular expression, so nothing is left to resolve when it replaces one.
        calls_for_epoch = names_changed or (
            regex_change is not RegexChange.NONE if updated.is_classic else regex_change is RegexChange.TO_RESOLVED
        )
        has_changed = names_changed or regex_change is not RegexChange.NONE
        if not calls_for_epoch and not group.is_metadata_expired(now_ms):
            return Subscribed(group.epoch, has_changed)
        subscriptions = group.subscriptions.copy()
        subscriptions.change(member, updated)
        former = regex_of(member)
        if former is not None and former != regex_of(updated) and group.regexes.get(former) == 1:
            # No other member has this expression.
            subscriptions.unmatch(group.resolved[former].topics if former in group.resolved else ())
        metadata_hash = self._hashes.of(subscriptions.topics())
        epoch = group.epoch
        if calls_for_epoch or metadata_hash != group.metadata_hash:
            epoch += 1
            result.records.append(epoch_record(group.group_id, epoch, metadata_hash))
            group.rebalances.append(Rebalance(_cause(group, updated, member_changed=calls_for_epoch), now_ms))
        group.metadata_refresh = (now_ms + UNBOUNDED, epoch)
        if group.has_partition_metadata:
            result.records.append(partition_metadata_tombstone(group.group_id))
        return Subscribed(epoch, has_changed)

    # ---- reconciliation

    def reconcile(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        target: TargetAssignment,
        owned: Sequence[TopicIdPartitions] | None,
        subscribed: Subscribed,
        now_ms: int,
        result: CoordinatorResult,
    ) -> ConsumerMember:
        if not subscribed.has_changed and member.is_reconciled_to(target.epoch):
            return member
        topics = topics_of(member, group.resolved)
        reached = Reconciliation(
            member,
            target,
            self._target.topic_ids(topics),
            bool(topics),
            subscribed.has_changed,
            group.is_free,
            owned,
        ).next()
        assert reached.epoch >= member.epoch, f"epoch of member {member.member_id} decreases to {reached.epoch}"
        if reached != member:
            result.records.append(current_record(group.group_id, reached))
            if not reached.is_classic:
                if reached.state is MemberState.UNREVOKED_PARTITIONS:
                    self._deadlines.start_revocation(group.group_id, reached, now_ms)
                else:
                    self._deadlines.end_revocation(group.group_id, reached.member_id)
            group.end_rebalances(reached, subscribed.epoch, now_ms)
        return reached


def _cause(group: ConsumerGroup, member: ConsumerMember, *, member_changed: bool) -> str:
    if not member_changed:
        return "topics that are read have changed"
    deed = "wants other topics" if member.member_id in group.members else "has come"
    return f"member {member.member_id} {deed}"

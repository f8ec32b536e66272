"""Removes members from a consumer group: they leave, or are fenced after a deadline."""

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from odradek.base.errors import KafkaError
from odradek.core.groups.commands import LEAVING_FOR_A_WHILE_EPOCH
from odradek.core.groups.consumer_deadlines import ConsumerDeadlines
from odradek.core.groups.consumer_group import ConsumerGroup
from odradek.core.groups.consumer_member import NO_PARTITIONS, ConsumerMember
from odradek.core.groups.consumer_migration import Migration
from odradek.core.groups.consumer_records import current_record, epoch_record, member_tombstones, regex_tombstone
from odradek.core.groups.consumer_subscriptions import regex_of
from odradek.core.groups.coordinator_result import CoordinatorResult
from odradek.core.groups.groups import (
    CONSUMER_JOIN,
    CONSUMER_REBALANCE,
    CONSUMER_SESSION,
    CONSUMER_SYNC,
    DeadlineKey,
    Groups,
)
from odradek.core.groups.rebalances import Rebalance
from odradek.core.groups.topics import TopicHashes

LEFT: Final = "has left"


class ConsumerFencing:
    def __init__(self, groups: Groups, hashes: TopicHashes, migration: Migration, deadlines: ConsumerDeadlines) -> None:
        self._groups = groups
        self._hashes = hashes
        self._migration = migration
        self._deadlines = deadlines

    def fence(
        self,
        group: ConsumerGroup,
        members: Collection[ConsumerMember],
        why: str,
        now_ms: int,
        result: CoordinatorResult,
    ) -> None:
        """Raises KafkaError if only classic members are left, and the group cannot be downgraded."""
        if not members:
            return
        if self._migration.may_downgrade_without(group, members):
            cause = f"Downgrade group {group.group_id} from consumer to classic for member leaving."
            self._migration.downgrade(group, now_ms, result, leaving=members, rebalance_cause=cause)
        else:
            self._remove(group, members, why, now_ms, result)

    def _remove(
        self,
        group: ConsumerGroup,
        members: Collection[ConsumerMember],
        why: str,
        now_ms: int,
        result: CoordinatorResult,
    ) -> None:
        """Their partitions are free at once; the next assignment gives them to other members."""
        subscriptions = group.subscriptions.copy()
        regexes: dict[str, int] = {}
        for member in members:
            result.records += member_tombstones(group.group_id, member.member_id)
            subscriptions.change(member, None)
            regex = regex_of(member)
            if regex is not None:
                regexes[regex] = regexes.get(regex, 0) + 1
        for regex, count in regexes.items():
            if group.regexes.get(regex) == count:
                result.records.append(regex_tombstone(group.group_id, regex))
                if regex in group.resolved:
                    subscriptions.unmatch(group.resolved[regex].topics)
        metadata_hash = self._hashes.of(subscriptions.topics())
        result.records.append(epoch_record(group.group_id, group.epoch + 1, metadata_hash))
        names = ", ".join(member.member_id for member in members)
        ended_ms = now_ms if len(members) == len(group.members) else None
        group.rebalances.append(Rebalance(f"member {names} {why}", now_ms, ended_ms))
        for member in members:
            self._deadlines.cancel_all(group.group_id, member.member_id)

    def leave_for_a_while(self, group: ConsumerGroup, member: ConsumerMember, result: CoordinatorResult) -> None:
        """A static member keeps its partitions for its next id, until its session expires."""
        leaving = replace(
            member,
            epoch=LEAVING_FOR_A_WHILE_EPOCH,
            revoking=NO_PARTITIONS,
            assigned={topic_id: dict.fromkeys(held, 0) for topic_id, held in member.assigned.items()},
        )
        result.records.append(current_record(group.group_id, leaving))

    def deadline(self, key: DeadlineKey, now_ms: int, result: CoordinatorResult) -> None:
        """A session, revocation, join or sync deadline has expired."""
        kind, group_id, member_id = key
        left_epoch = self._deadlines.pop_epoch_to_leave(group_id, member_id) if kind == CONSUMER_REBALANCE else None
        group = self._groups.consumer(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None:
            return
        if kind == CONSUMER_REBALANCE and member.epoch != left_epoch:
            return
        try:
            self.fence(group, [member], _TOO_LATE[kind], now_ms, result)
        except KafkaError:
            # An expired member cannot get an error: the group stays a consumer group without it.
            self._remove(group, [member], _TOO_LATE[kind], now_ms, result)


_TOO_LATE: Final = {
    CONSUMER_SESSION: "was removed because its session expired",
    CONSUMER_REBALANCE: "did not revoke partitions in time",
    CONSUMER_JOIN: "did not rejoin in time",
    CONSUMER_SYNC: "did not sync in time",
}

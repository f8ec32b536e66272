"""Computes the target assignment of a consumer group when the group epoch is newer than the assignment epoch."""

from collections.abc import Collection, Mapping, Set
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.groups.assignors import ASSIGNORS, AssignorFailed, GroupSpec, MemberSpec
from odradek.core.groups.consumer_group import ConsumerGroup
from odradek.core.groups.consumer_member import ConsumerMember
from odradek.core.groups.consumer_reconciliation import TargetAssignment
from odradek.core.groups.consumer_records import target_epoch_record, target_record
from odradek.core.groups.consumer_subscriptions import regex_of, topics_of
from odradek.core.groups.coordinator_result import CoordinatorResult
from odradek.core.groups.group_configs import GroupConfigs
from odradek.core.groups.hash_order import names_in_hash_order
from odradek.core.groups.settings import GroupSettings
from odradek.core.groups.topics import Topics


class ConsumerTarget:
    def __init__(self, topics: Topics, settings: GroupSettings, configs: GroupConfigs) -> None:
        self._topics = topics
        self._settings = settings
        self._configs = configs

    @property
    def default_assignor(self) -> str:
        return self._settings.consumer_assignors[0]

    def topic_ids(self, names: Collection[str]) -> frozenset[UUID]:
        """Of topics that exist."""
        found = (self._topics.by_name(name) for name in names)
        return frozenset(topic.id for topic in found if topic is not None)

    def update(
        self,
        group: ConsumerGroup,
        epoch: int,
        member: ConsumerMember,
        updated: ConsumerMember,
        now_ms: int,
        result: CoordinatorResult,
    ) -> TargetAssignment:
        """The target assignment of `updated`, which replaces `member`: a new one, or the last one."""
        if group.assignment_epoch >= epoch or not self._may_assign(group, now_ms):
            return TargetAssignment(group.assignment_epoch, group.target_of(updated))
        assignor = group.preferred_assignor(member, updated) or self.default_assignor
        spec = self._spec(group, updated)
        try:
            assignment = ASSIGNORS[assignor](spec)
        except AssignorFailed as failed:
            message = f"Failed to compute a new target assignment for epoch {epoch}: {failed}"
            raise KafkaError(ErrorCode.unknown_server_error, message) from failed
        assert_single_owners(assignment)
        for member_id in spec.members:
            partitions: Mapping[UUID, Set[int]] = assignment.get(member_id, {})
            if group.target.get(member_id) != partitions:
                result.records.append(target_record(group.group_id, member_id, partitions))
        result.records.append(target_epoch_record(group.group_id, epoch, now_ms))
        return TargetAssignment(epoch, assignment.get(updated.member_id, {}))

    def _may_assign(self, group: ConsumerGroup, now_ms: int) -> bool:
        interval_ms = self._configs.assignment_interval_ms(group.group_id)
        # Without an interval, a clock that was set back must not cause a delay.
        return (
            not group.assignment_timestamp_ms
            or not interval_ms
            or now_ms >= group.assignment_timestamp_ms + interval_ms
        )

    def _spec(self, group: ConsumerGroup, updated: ConsumerMember) -> GroupSpec:
        members = {**group.members, updated.member_id: updated}
        former_id = updated.member_id
        if updated.instance_id is not None:
            former_id = group.static_members.get(updated.instance_id, updated.member_id)
        names = dict.fromkeys((*group.member_ids_in_order(), updated.member_id))
        count_at_once = len(names)
        if former_id != updated.member_id:
            del names[former_id]
            # Kafka removes the former from its table before or after it adds the latter, depending on their names.
            count_at_once -= names_in_hash_order([updated.member_id, former_id])[0] == former_id
        order = names_in_hash_order(names, count_at_once)
        # Most members have the same subscription as the previous one.
        known: dict[tuple[frozenset[str], str | None], frozenset[UUID]] = {}
        specs: dict[str, MemberSpec] = {}
        for member_id in order:
            member = members[member_id]
            subscription = (member.topic_names, regex_of(member))
            topic_ids = known.get(subscription)
            if topic_ids is None:
                topic_ids = known[subscription] = self.topic_ids(topics_of(member, group.resolved))
            assigned = group.target.get(former_id if member is updated else member_id, {})
            specs[member_id] = MemberSpec(topic_ids, member.instance_id, assigned)
        counts: dict[UUID, int] = {}
        for topic_id in frozenset().union(*known.values()):
            topic = self._topics.by_id(topic_id)
            if topic is not None:
                counts[topic_id] = topic.partition_count
        # A member with both names and an expression counts as different from all others.
        is_homogeneous = len(known) == 1 and not any(names and regex is not None for names, regex in known)
        return GroupSpec(specs, counts, is_homogeneous)


def assert_single_owners(assignment: Mapping[str, Mapping[UUID, Set[int]]]) -> None:
    """A target assignment gives each partition to at most one member."""
    for topic_id in {topic_id for partitions in assignment.values() for topic_id in partitions}:
        assigned = [partitions[topic_id] for partitions in assignment.values() if topic_id in partitions]
        assert sum(map(len, assigned)) == len(frozenset().union(*assigned)), f"two owners of a partition of {topic_id}"

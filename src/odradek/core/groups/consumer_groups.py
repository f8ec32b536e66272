"""Connects the parts of the consumer protocol, and handles events that concern all consumer groups."""

from collections.abc import Callable, Collection
from uuid import UUID

from odradek.core.groups.classic_rebalance import ClassicRebalance
from odradek.core.groups.consumer_classic import ClassicMembers
from odradek.core.groups.consumer_deadlines import ConsumerDeadlines
from odradek.core.groups.consumer_fencing import ConsumerFencing
from odradek.core.groups.consumer_member import MemberState
from odradek.core.groups.consumer_migration import Migration
from odradek.core.groups.consumer_progress import ConsumerProgress
from odradek.core.groups.consumer_protocol import ConsumerProtocol
from odradek.core.groups.consumer_regexes import ConsumerRegexes
from odradek.core.groups.consumer_target import ConsumerTarget
from odradek.core.groups.coordinator_result import CoordinatorResult
from odradek.core.groups.group_configs import GroupConfigs
from odradek.core.groups.groups import CONSUMER_REGEXES, DeadlineKey, Groups
from odradek.core.groups.settings import GroupSettings
from odradek.core.groups.topics import TopicHashes, Topics

_AT_ONCE = (0, 0)


class ConsumerGroups:
    def __init__(
        self,
        groups: Groups,
        settings: GroupSettings,
        configs: GroupConfigs,
        topics: Topics,
        rebalance: ClassicRebalance,
        new_uuid: Callable[[], UUID],
    ) -> None:
        self._groups = groups
        self._topics = topics
        self._hashes = TopicHashes(topics)
        self._deadlines = ConsumerDeadlines(groups, configs)
        self._regexes = ConsumerRegexes(groups, settings, topics, self._hashes)
        migration = Migration(groups, settings, topics, self._hashes, rebalance, self._deadlines)
        self._fencing = ConsumerFencing(groups, self._hashes, migration, self._deadlines)
        target = ConsumerTarget(topics, settings, configs)
        progress = ConsumerProgress(self._regexes, target, self._hashes, self._deadlines)
        self.protocol = ConsumerProtocol(
            groups, settings, configs, progress, self._fencing, migration, self._deadlines, new_uuid
        )
        self.classic_members = ClassicMembers(
            groups, settings, topics, progress, self._fencing, migration, self._deadlines, new_uuid
        )

    def deadline(self, key: DeadlineKey, now_ms: int) -> CoordinatorResult:
        result = CoordinatorResult()
        if key[0] == CONSUMER_REGEXES:
            self._regexes.resolve(key[1], now_ms, result)
        else:
            self._fencing.deadline(key, now_ms, result)
        return result

    def on_topics_changed(self, names: Collection[str], *, any_created: bool) -> None:
        """Subscribed groups check them at the next heartbeat of any member."""
        self._hashes.forget(names)
        if any_created:
            self._regexes.newest_topic_version = self._topics.version
        for group in self._groups.all_consumer():
            if any(group.is_subscribed_to(name) for name in names):
                group.metadata_refresh = _AT_ONCE

    def on_loaded(self, now_ms: int) -> None:
        """Every member gets a full session timeout to reach the new coordinator."""
        self._regexes.newest_topic_version = self._topics.version
        for group in self._groups.all_consumer():
            for member_id in group.member_ids_in_order():
                member = group.members[member_id]
                self._deadlines.renew_session_deadline(group.group_id, member_id, now_ms)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    self._deadlines.start_revocation(group.group_id, member, now_ms)

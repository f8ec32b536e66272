"""Subscriptions by regular expression: when to resolve them, and the records of the matching topics.

All expressions of a group are resolved together, outside of the heartbeat and in slices, so that a cluster with many
topics does not block the event loop. They match only topics that the member whose request started the resolution may
describe: all members with the same expression share the result.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import Final

from odradek.base.errors import KafkaError
from odradek.core.groups.consumer_group import ConsumerGroup
from odradek.core.groups.consumer_member import ConsumerMember
from odradek.core.groups.consumer_records import epoch_record, regex_record, regex_tombstone
from odradek.core.groups.consumer_subscriptions import ResolvedRegex, change_count, regex_of
from odradek.core.groups.coordinator_result import CoordinatorResult
from odradek.core.groups.groups import CONSUMER_REGEXES, Groups
from odradek.core.groups.rebalances import Rebalance
from odradek.core.groups.regular_expressions import matcher
from odradek.core.groups.settings import UNBOUNDED, GroupSettings
from odradek.core.groups.topics import TopicHashes, Topics
from odradek.core.security.access import Access
from odradek.core.security.resources import Operation, ResourceType

MIN_REFRESH_INTERVAL_MS: Final = 10_000
_MATCHES_PER_SLICE: Final = 5_000
_NO_TOPICS: Final = frozenset[str]()


class RegexChange(Enum):
    NONE = 0
    TO_UNRESOLVED = 1
    """The next assignment waits until it is resolved."""
    TO_RESOLVED = 2


@dataclass(slots=True)
class _Resolution:
    """A resolution in progress."""

    matchers: dict[str, Callable[[str], bool]]
    names: list[str]
    version: int
    began_ms: int
    access: Access
    position: int = 0
    matches: dict[str, set[str]] = field(default_factory=dict)


class ConsumerRegexes:
    def __init__(self, groups: Groups, settings: GroupSettings, topics: Topics, hashes: TopicHashes) -> None:
        self._groups = groups
        self._settings = settings
        self._topics = topics
        self._hashes = hashes
        self._pending: dict[str, tuple[frozenset[str], Access]] = {}
        """Pending and running resolutions, by group."""
        self._running: dict[str, _Resolution] = {}
        self.newest_topic_version = -1
        """The version of the cluster's topics at the last creation of a topic."""

    def change(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        access: Access,
        now_ms: int,
        result: CoordinatorResult,
    ) -> RegexChange:
        old, new = regex_of(member), regex_of(updated)
        change = RegexChange.NONE
        is_new = False
        if member.topic_regex != updated.topic_regex:
            change = RegexChange.TO_UNRESOLVED
            if old is not None and group.regexes.get(old) == 1:
                result.records.append(regex_tombstone(group.group_id, old))
            if new is not None and new not in group.regexes:
                matcher(new)
                is_new = True
            elif new in group.resolved or (new is None and old is not None):
                change = RegexChange.TO_RESOLVED
        if is_new or group.regexes:
            self._refresh_if_due(group, old, new, access, now_ms, is_new=is_new)
        return change

    def _refresh_if_due(
        self, group: ConsumerGroup, old: str | None, new: str | None, access: Access, now_ms: int, *, is_new: bool
    ) -> None:
        last = group.last_resolved_regex
        if group.group_id in self._pending or (
            last is not None and now_ms <= last.timestamp_ms + MIN_REFRESH_INTERVAL_MS
        ):
            return
        is_due = (
            is_new
            or last is None
            or last.version < self.newest_topic_version
            or now_ms > last.timestamp_ms + self._settings.consumer_regex_refresh_interval_ms
        )
        if old == new and not is_due and len(group.regexes) == len(group.resolved):
            return
        regexes = dict(group.regexes)
        change_count(regexes, old, new)
        if regexes and (is_due or len(regexes) != len(group.resolved)):
            self._pending[group.group_id] = frozenset(regexes), access
            self._groups.deadlines.set((CONSUMER_REGEXES, group.group_id, ""), now_ms)

    def resolve(self, group_id: str, now_ms: int, result: CoordinatorResult) -> None:
        """Resolves one slice; after the last one, writes the matching topics."""
        resolution = self._running.get(group_id)
        if resolution is None:
            resolution = self._begin(*self._pending[group_id], now_ms)
            self._running[group_id] = resolution
        end = resolution.position + max(_MATCHES_PER_SLICE // max(len(resolution.matchers), 1), 1)
        for name in islice(resolution.names, resolution.position, end):
            matching = [regex for regex, matches in resolution.matchers.items() if matches(name)]
            if matching and _may_describe(resolution.access, name):
                for regex in matching:
                    resolution.matches[regex].add(name)
        resolution.position = end
        if end < len(resolution.names):
            self._groups.deadlines.set((CONSUMER_REGEXES, group_id, ""), now_ms)
            return
        del self._running[group_id], self._pending[group_id]
        group = self._groups.consumer(group_id)
        if group is not None:
            self._finish(group, resolution, now_ms, result)

    def _begin(self, regexes: Collection[str], access: Access, now_ms: int) -> _Resolution:
        matchers = {}
        for regex in regexes:
            try:
                matchers[regex] = matcher(regex)
            except KafkaError:
                # A coordinator of a later release has accepted it: it matches nothing here.
                continue
        version = self._topics.version
        matches: dict[str, set[str]] = {regex: set() for regex in regexes}
        return _Resolution(matchers, list(self._topics.names()), version, now_ms, access, matches=matches)

    def _finish(self, group: ConsumerGroup, resolution: _Resolution, now_ms: int, result: CoordinatorResult) -> None:
        subscriptions = group.subscriptions.copy()
        has_changed = False
        for regex, matches in resolution.matches.items():
            if regex not in group.regexes:
                continue
            former = group.resolved[regex].topics if regex in group.resolved else _NO_TOPICS
            if former != matches:
                has_changed = True
                subscriptions.unmatch(former)
                subscriptions.match(matches)
            resolved = ResolvedRegex(frozenset(matches), resolution.version, resolution.began_ms)
            result.records.append(regex_record(group.group_id, regex, resolved))
        metadata_hash = self._hashes.of(subscriptions.topics())
        if has_changed or metadata_hash != group.metadata_hash:
            result.records.append(epoch_record(group.group_id, group.epoch + 1, metadata_hash))
            group.rebalances.append(Rebalance("regular expressions match other topics", now_ms))
            group.metadata_refresh = (now_ms + UNBOUNDED, group.epoch + 1)


def _may_describe(access: Access, topic: str) -> bool:
    return not access.is_restricted or access.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic, logs_denial=False)

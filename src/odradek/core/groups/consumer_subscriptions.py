"""The subscribed topics of a consumer group, by name and by regular expression."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from odradek.core.groups.consumer_member import ConsumerMember


class ResolvedRegex(NamedTuple):
    """The matching topics, at a version of the cluster's topics."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class Subscriptions:
    def __init__(self) -> None:
        self._by_name: Counter[str] = Counter()
        """The number of members that name a topic."""
        self._by_regex: Counter[str] = Counter()
        """The number of expressions that match a topic."""

    def copy(self) -> "Subscriptions":
        copied = Subscriptions()
        copied._by_name = self._by_name.copy()
        copied._by_regex = self._by_regex.copy()
        return copied

    def topics(self) -> set[str]:
        return self._by_name.keys() | self._by_regex.keys()

    def __contains__(self, topic: str) -> bool:
        return topic in self._by_name or topic in self._by_regex

    def change(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        if old is not None:
            _subtract(self._by_name, old.topic_names)
        if new is not None:
            self._by_name.update(new.topic_names)

    def match(self, topics: Iterable[str]) -> None:
        self._by_regex.update(topics)

    def unmatch(self, topics: Iterable[str]) -> None:
        _subtract(self._by_regex, topics)


def _subtract(counter: Counter[str], names: Iterable[str]) -> None:
    for name in names:
        left = counter[name] - 1
        if left > 0:
            counter[name] = left
        else:
            del counter[name]


def regex_of(member: ConsumerMember | None) -> str | None:
    """None if it has none; an empty expression counts as none."""
    return None if member is None else member.topic_regex or None


def topics_of(member: ConsumerMember, resolved: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """Includes unknown topics. An unresolved expression matches nothing."""
    regex = regex_of(member)
    if regex is None or regex not in resolved:
        return member.topic_names
    return member.topic_names | resolved[regex].topics


def change_count(counts: dict[str, int], old: str | None, new: str | None) -> None:
    if old is not None and old in counts:
        counts[old] -= 1
        if not counts[old]:
            del counts[old]
    if new is not None:
        counts[new] = counts.get(new, 0) + 1

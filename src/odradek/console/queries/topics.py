"""Queries the offsets of one topic and the groups that read it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.admin import EARLIEST, LATEST, Admin
from odradek.client.cluster import Cluster
from odradek.client.groups import GroupDescription, Groups, Offsets

# Finding the readers of a topic requires the offsets of every group, so the number of groups is limited.
GROUPS_MAX: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsets:
    earliest: Offsets
    latest: Offsets
    """Covers partitions that have a leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingGroup:
    id: str
    state: str
    members: int
    committed: Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    groups: tuple[ReadingGroup, ...]
    ends: Offsets
    queried: int
    of: int
    """Total number of groups; may exceed the number of queried groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLags:
    of_topics: Mapping[str, int]
    """Total lag by topic, over all groups with committed offsets."""
    queried: int
    of: int


def lags_of_topics(cluster: Cluster) -> TopicLags:
    groups = Groups(cluster)
    listed = [one.id for one in groups.listings()]
    committed = groups.offsets(listed[:GROUPS_MAX])
    named = {one for offsets in committed.values() for one in offsets}
    ends = Admin(cluster).offsets(dict.fromkeys(_partitions_with_leader(cluster, named), LATEST)) if named else {}
    lags: dict[str, int] = {}
    for offsets in committed.values():
        for one, offset in offsets.items():
            if one in ends:
                lags[one.topic] = lags.get(one.topic, 0) + max(0, ends[one] - offset)
    return TopicLags(of_topics=lags, queried=min(len(listed), GROUPS_MAX), of=len(listed))


def offsets_of(cluster: Cluster, topic: str) -> PartitionOffsets:
    led = _led_partitions(cluster, topic)
    admin = Admin(cluster)
    return PartitionOffsets(
        earliest=admin.offsets(dict.fromkeys(led, EARLIEST)), latest=admin.offsets(dict.fromkeys(led, LATEST))
    )


def readers_of(cluster: Cluster, topic: str) -> Readers:
    groups = Groups(cluster)
    listed = [one.id for one in groups.listings()]
    committed = groups.offsets(listed[:GROUPS_MAX])
    reading = {
        group: {one: offset for one, offset in offsets.items() if one.topic == topic}
        for group, offsets in committed.items()
    }
    described = groups.describe([group for group, offsets in reading.items() if offsets])
    return Readers(
        groups=tuple(
            _group(group, description, reading[group])
            for group, description in sorted(described.items())
            if not isinstance(description, KafkaError)
        ),
        ends=Admin(cluster).offsets(dict.fromkeys(_led_partitions(cluster, topic), LATEST)),
        queried=min(len(listed), GROUPS_MAX),
        of=len(listed),
    )


def _group(group: str, described: GroupDescription, committed: Offsets) -> ReadingGroup:
    return ReadingGroup(id=group, state=described.state, members=len(described.members), committed=committed)


def _led_partitions(cluster: Cluster, topic: str) -> Sequence[TopicPartition]:
    layout = cluster.retry("looking up the topic", lambda: cluster.topics([topic]))[topic]
    return [TopicPartition(topic, one.id) for one in layout.partitions if one.leader >= 0]


def _partitions_with_leader(cluster: Cluster, named: Collection[TopicPartition]) -> set[TopicPartition]:
    """Omits partitions that no longer exist or have no leader."""
    layout = cluster.retry("finding leaders", lambda: cluster.layout({one.topic for one in named}))
    led = {
        TopicPartition(topic.name, one.id)
        for topic in layout.topics.values()
        for one in topic.partitions
        if one.leader >= 0
    }
    return led.intersection(named)

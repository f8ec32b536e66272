"""An index for queries about the whole cluster, which otherwise would need a walk over every partition.

It has counts per topic, not lists of partitions, so it stays small with a million partitions. It is derived entirely
from images and can be rebuilt at any time.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from uuid import UUID

from odradek.base.ids import NO_LEADER
from odradek.core.metadata.apply import ImageDelta
from odradek.core.metadata.image import ClusterImage, PartitionImage, TopicImage
from odradek.core.metadata.topic_names import collision_key
from odradek.core.security.acl_entry import AccessControlEntry


class TopicCounts:
    """The number of partitions per topic with some property."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[UUID, int] = {}

    def add(self, topic_id: UUID, amount: int) -> None:
        count = self._counts.get(topic_id, 0) + amount
        if count:
            self._counts[topic_id] = count
        else:
            self._counts.pop(topic_id, None)

    def __bool__(self) -> bool:
        return bool(self._counts)

    def topics(self) -> tuple[UUID, ...]:
        return tuple(self._counts)


class ClusterIndex:
    def __init__(self, image: ClusterImage) -> None:
        self._in_isr: dict[int, TopicCounts] = {}
        self._in_elr: dict[int, TopicCounts] = {}
        self._led: dict[int, TopicCounts] = {}
        """By leader, or NO_LEADER."""
        self._led_by_another = TopicCounts()
        self._reassigned = TopicCounts()
        self._colliding: dict[str, dict[str, None]] = {}
        self._broker_of_directory: dict[UUID, int] = {}
        self._acl_ids: dict[AccessControlEntry, UUID] | None = None
        """Built on first use: ACLs rarely change, and activations must be quick."""
        for topic in image.topics_by_id.values():
            self._add_topic(topic)
        for broker in image.brokers.values():
            self._broker_of_directory |= dict.fromkeys(broker.directories, broker.id)

    def update(self, image: ClusterImage, delta: ImageDelta) -> None:
        before = delta.previous
        for topic in delta.topics_deleted:
            self._remove_topic(topic)
        for topic in delta.topics_created:
            self._add_topic(topic)
        for topic in delta.topics_changed:
            old = before.topics_by_id[topic.id]
            indexes = delta.partitions_changed[topic.id]
            self._count(topic.id, [old.partitions[index] for index in indexes if index in old.partitions], -1)
            self._count(topic.id, [topic.partitions[index] for index in indexes], 1)
        for broker_id in delta.brokers_changed:
            if (gone := before.brokers.get(broker_id)) is not None:
                for directory in gone.directories:
                    self._broker_of_directory.pop(directory, None)
            if (broker := image.brokers.get(broker_id)) is not None:
                self._broker_of_directory |= dict.fromkeys(broker.directories, broker_id)
        if self._acl_ids is not None:
            _update_acl_ids(self._acl_ids, image, delta)

    def topics_with_broker_in_isr(self, broker_id: int) -> tuple[UUID, ...]:
        return _topics_of(self._in_isr, broker_id)

    def topics_with_broker_in_elr(self, broker_id: int) -> tuple[UUID, ...]:
        return _topics_of(self._in_elr, broker_id)

    def topics_without_leader(self) -> tuple[UUID, ...]:
        return _topics_of(self._led, NO_LEADER)

    def topics_led_by_another(self) -> tuple[UUID, ...]:
        """Topics with partitions whose leader is not the preferred one."""
        return self._led_by_another.topics()

    def reassigned_topics(self) -> tuple[UUID, ...]:
        """Topics with reassignments in progress."""
        return self._reassigned.topics()

    def leads_any_partition(self, broker_id: int) -> bool:
        return bool(self._led.get(broker_id))

    def broker_of_directory(self, directory: UUID) -> int | None:
        return self._broker_of_directory.get(directory)

    def acl_id(self, image: ClusterImage, entry: AccessControlEntry) -> UUID | None:
        """None: there is no such ACL. `image` is the one that the index was last updated with."""
        if self._acl_ids is None:
            self._acl_ids = {one: entry_id for entry_id, one in image.access_control_entries.items()}
        return self._acl_ids.get(entry)

    def colliding_topic(self, name: str) -> str | None:
        """An existing topic with the same name in metrics."""
        key = collision_key(name)
        return None if key is None else next(iter(self._colliding.get(key, ())), None)

    def _add_topic(self, topic: TopicImage) -> None:
        self._count(topic.id, topic.partitions.values(), 1)
        if (key := collision_key(topic.name)) is not None:
            self._colliding.setdefault(key, {})[topic.name] = None

    def _remove_topic(self, topic: TopicImage) -> None:
        self._count(topic.id, topic.partitions.values(), -1)
        if (key := collision_key(topic.name)) is not None:
            names = self._colliding[key]
            names.pop(topic.name, None)
            if not names:
                del self._colliding[key]

    def _count(self, topic_id: UUID, partitions: Collection[PartitionImage], sign: int) -> None:
        for counts, brokers in (
            (self._in_isr, chain.from_iterable([partition.isr for partition in partitions])),
            (self._in_elr, chain.from_iterable([partition.elr for partition in partitions])),
            (self._led, [partition.leader for partition in partitions]),
        ):
            for broker_id, amount in Counter(brokers).items():
                counts.setdefault(broker_id, TopicCounts()).add(topic_id, sign * amount)
        # Without properties, for speed: an activation counts up to a million partitions.
        self._led_by_another.add(topic_id, sign * sum(one.leader != one.replicas[0] for one in partitions))
        self._reassigned.add(topic_id, sign * sum(bool(one.adding or one.removing) for one in partitions))


def _update_acl_ids(ids: dict[AccessControlEntry, UUID], image: ClusterImage, delta: ImageDelta) -> None:
    for entry_id in delta.access_control_changed:
        if (old := delta.previous.access_control_entries.get(entry_id)) is not None:
            ids.pop(old, None)
        if (new := image.access_control_entries.get(entry_id)) is not None:
            ids[new] = entry_id


def _topics_of(counts: dict[int, TopicCounts], broker_id: int) -> tuple[UUID, ...]:
    found = counts.get(broker_id)
    return () if found is None else found.topics()


def partitions_of(image: ClusterImage, topic_ids: Iterable[UUID]) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
    for topic_id in topic_ids:
        topic = image.topics_by_id[topic_id]
        for index, partition in topic.partitions.items():
            yield topic, index, partition

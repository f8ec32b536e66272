"""The cluster's topics, as far as consumer groups depend on them.

All coordinators of a broker share one view. After a change the runtime calls `GroupCoordinator.on_topics_changed` of
each.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol
from uuid import UUID

import xxhash

from odradek.core.metadata.image import ClusterImage

_MAGIC: Final = 0
_HEAD: Final = struct.Struct("<b")
_INT: Final = struct.Struct("<i")
_LONG: Final = struct.Struct("<q")
_NO_TOPICS_HASH: Final = 0


class Topic(NamedTuple):
    name: str
    id: UUID
    partition_count: int


class Topics(Protocol):
    @property
    def version(self) -> int:
        """Increases with every change."""

    def by_name(self, name: str) -> Topic | None: ...

    def by_id(self, topic_id: UUID) -> Topic | None: ...

    def names(self) -> Iterable[str]: ...

    def racks(self, topic: Topic) -> Sequence[Sequence[str]]:
        """By partition: the racks of its replicas, if known."""


class NoTopics:
    """For a coordinator without a cluster."""

    version = 0

    def by_name(self, name: str) -> Topic | None:
        return None

    def by_id(self, topic_id: UUID) -> Topic | None:
        return None

    def names(self) -> Iterable[str]:
        return ()

    def racks(self, topic: Topic) -> Sequence[Sequence[str]]:
        return ()


class ImageTopics:
    """The topics of the current metadata image."""

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image

    @property
    def version(self) -> int:
        return self._image().offset

    def by_name(self, name: str) -> Topic | None:
        found = self._image().topics_by_name.get(name)
        return None if found is None else Topic(found.name, found.id, len(found.partitions))

    def by_id(self, topic_id: UUID) -> Topic | None:
        found = self._image().topics_by_id.get(topic_id)
        return None if found is None else Topic(found.name, found.id, len(found.partitions))

    def names(self) -> Iterable[str]:
        return self._image().topics_by_name.keys()

    def racks(self, topic: Topic) -> Sequence[Sequence[str]]:
        image = self._image()
        partitions, brokers = image.topics_by_name[topic.name].partitions, image.brokers
        return [
            [
                broker.rack
                for replica in partitions[index].replicas
                if (broker := brokers.get(replica)) is not None and broker.rack is not None
            ]
            for index in range(topic.partition_count)
        ]


class TopicHashes:
    """The hash of a group's subscribed topics: if it changes, the group needs a new assignment.

    It equals Kafka's, because the group's record has it, and the next coordinator compares it.
    """

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._known: dict[str, int] = {}

    def of(self, names: Iterable[str]) -> int:
        digest = xxhash.xxh3_64()
        is_empty = True
        for name in sorted(names, key=_java_order):
            topic = self._topics.by_name(name)
            if topic is not None:
                is_empty = False
                digest.update(_LONG.pack(self._of_topic(topic)))
        return _NO_TOPICS_HASH if is_empty else _to_signed(digest.intdigest())

    def forget(self, names: Iterable[str]) -> None:
        for name in names:
            self._known.pop(name, None)

    def _of_topic(self, topic: Topic) -> int:
        known = self._known.get(topic.name)
        if known is None:
            known = self._known[topic.name] = _hash_of(topic, self._topics.racks(topic))
        return known


def _hash_of(topic: Topic, racks: Sequence[Sequence[str]]) -> int:
    digest = xxhash.xxh3_64(_HEAD.pack(_MAGIC))
    digest.update(topic.id.bytes[7::-1] + topic.id.bytes[:7:-1])
    digest.update(_encode_string(topic.name))
    digest.update(_INT.pack(topic.partition_count))
    for index, of_partition in enumerate(racks):
        digest.update(_INT.pack(index))
        for rack in sorted(of_partition, key=_java_order):
            # With its length, so that the racks are delimited.
            digest.update(_INT.pack(len(rack.encode("utf-16-le", "surrogatepass")) // 2))
            digest.update(_encode_string(rack))
    return _to_signed(digest.intdigest())


def _encode_string(text: str) -> bytes:
    encoded = text.encode("utf-16-le", "surrogatepass")
    return encoded + _INT.pack(len(encoded) // 2)


def _java_order(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _to_signed(unsigned: int) -> int:
    return unsigned - (1 << 64) if unsigned >> 63 else unsigned

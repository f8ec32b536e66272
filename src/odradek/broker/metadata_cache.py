"""Keeps the encoded topics of Metadata responses until the topic, or a broker that it depends on, changes.

The encoding of a topic depends on its image, and for each broker that has a replica on what clients of one listener
see of it (`BrokerState`). It does not depend on the client: what does is written next to the encoded topics.

It must not know how topics are encoded.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

from odradek.core.metadata.image import BrokerImage, ClusterImage, TopicImage

# Listeners and forms of the response whose topics are kept. Clients of one release use the same form.
TABLES_MAX: Final = 4
# Entries beyond those of existing topics that are kept before the topics that no longer exist are dropped.
_DELETED_TOPICS_MAX: Final = 1000


class BrokerState(NamedTuple):
    """What the encoding of a partition depends on, of a registered broker with a replica."""

    has_listener: bool
    is_fenced: bool
    directories: tuple[UUID, ...]
    is_unreachable: bool


class _Entry:
    __slots__ = ("brokers", "encoded", "generation", "topic")

    def __init__(self, topic: TopicImage, encoded: bytes, brokers: frozenset[int], generation: int) -> None:
        self.topic: Final = topic
        self.encoded: Final = encoded
        self.brokers: Final = brokers
        self.generation = generation
        """The last generation of broker states for which the entry is known to be valid."""


class TopicTable:
    """The encoded topics for one listener and one form of the response."""

    def __init__(self, listener: str) -> None:
        self._listener: Final = listener
        self._entries: Final[dict[str, _Entry]] = {}
        """By topic name, whose hash is cheaper than that of an ID."""
        self._brokers: Mapping[int, BrokerImage] = {}
        self._unreachable: frozenset[int] = frozenset()
        self._states: dict[int, BrokerState] = {}
        self._generation = 0
        self._changed_in: Final[dict[int, int]] = {}
        """The generation in which the state of a broker last changed."""
        self.encoded_brokers: bytes | None = None
        """The brokers of the image of the last `update`."""
        self.stored = 0
        """The number of topics that had to be encoded so far."""

    def __len__(self) -> int:
        return len(self._entries)

    def update(self, image: ClusterImage, unreachable: frozenset[int]) -> int:
        """Returns the generation of the broker states in this image, for `find` and `store`."""
        if image.brokers is not self._brokers or unreachable != self._unreachable:
            self._brokers, self._unreachable = image.brokers, unreachable
            self.encoded_brokers = None
            states = {one.id: self._state(one) for one in image.brokers.values()}
            known = self._states
            changed = [one for one in states.keys() | known.keys() if states.get(one) != known.get(one)]
            self._states = states
            if changed:
                self._generation += 1
                self._changed_in.update(dict.fromkeys(changed, self._generation))
        if len(self._entries) > len(image.topics_by_name) + _DELETED_TOPICS_MAX:
            for name in [one for one in self._entries if one not in image.topics_by_name]:
                del self._entries[name]
        return self._generation

    def find(self, topic: TopicImage, generation: int) -> bytes | None:
        entry = self._entries.get(topic.name)
        # Of an earlier generation: the response is about an image that is no longer the newest one.
        if entry is None or entry.topic is not topic or generation != self._generation:
            return None
        if entry.generation != generation:
            changed_in, since = self._changed_in, entry.generation
            if any(changed_in.get(broker_id, 0) > since for broker_id in entry.brokers):
                return None
            entry.generation = generation
        return entry.encoded

    def store(self, topic: TopicImage, encoded: bytes, brokers: frozenset[int], generation: int) -> None:
        """`brokers` are those with replicas of the topic."""
        self.stored += 1
        if generation == self._generation:
            self._entries[topic.name] = _Entry(topic, encoded, brokers, generation)

    def _state(self, broker: BrokerImage) -> BrokerState:
        return BrokerState(
            broker.endpoint(self._listener) is not None,
            broker.fenced,
            broker.directories,
            broker.id in self._unreachable,
        )


class MetadataCache:
    def __init__(self) -> None:
        self._tables: Final[dict[tuple[str, int], TopicTable]] = {}

    def __len__(self) -> int:
        return len(self._tables)

    def table(self, listener: str, form: int) -> TopicTable:
        """Drops the table that was not used for the longest time if there are too many."""
        key = (listener, form)
        table = self._tables.pop(key, None)
        if table is None:
            table = TopicTable(listener)
            if len(self._tables) >= TABLES_MAX:
                del self._tables[next(iter(self._tables))]
        self._tables[key] = table
        return table

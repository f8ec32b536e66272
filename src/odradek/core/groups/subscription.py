"""The embedded consumer protocol of classic groups: subscriptions and assignments that a coordinator reads or writes.

Every version of a subscription extends the previous one; assignments are the same in all versions.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
HIGHEST_VERSION: Final = 3
NAMES_MAX: Final = 20_000
"""The limit of topics in a subscription, as for requests: clients do not limit what they send to each other."""
PARTITIONS_MAX: Final = 200_000

_OWNED_SINCE: Final = 1
_GENERATION_SINCE: Final = 2
_RACK_SINCE: Final = 3
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_NULL: Final = -1


class UnreadableSubscription(ValueError):
    """The metadata of a member with protocol type `consumer` is not a subscription."""


class Subscription(NamedTuple):
    topics: tuple[str, ...]
    owned: Mapping[str, tuple[int, ...]]
    rack_id: str | None


class ClassicAssignment(NamedTuple):
    partitions: Mapping[str, tuple[int, ...]]
    user_data: bytes | None


def read_version(data: bytes) -> int:
    version = _Reader(data).short()
    if version < 0:
        raise UnreadableSubscription(f"version {version}")
    return min(version, HIGHEST_VERSION)


def subscribed_topics(metadata: bytes) -> set[str]:
    reader = _Reader(metadata)
    version = reader.short()
    topics = reader.strings()
    reader.nullable_bytes()
    if version < 0:
        raise UnreadableSubscription(f"version {version}")
    return set(topics)


def read_subscription(metadata: bytes) -> Subscription:
    version = read_version(metadata)
    reader = _Reader(metadata, _SHORT.size)
    topics = reader.strings()
    reader.nullable_bytes()
    owned = reader.partitions() if version >= _OWNED_SINCE else {}
    if version >= _GENERATION_SINCE:
        reader.integer()
    rack_id = reader.nullable_string() if version >= _RACK_SINCE else None
    return Subscription(topics, owned, rack_id)


def read_assignment(data: bytes) -> ClassicAssignment:
    read_version(data)
    reader = _Reader(data, _SHORT.size)
    return ClassicAssignment(reader.partitions(), reader.nullable_bytes())


def write_assignment(partitions: Iterable[tuple[str, Iterable[int]]], version: int) -> bytes:
    topics = [(topic.encode(), list(each)) for topic, each in partitions]
    result = bytearray(_SHORT.pack(version) + _INT.pack(len(topics)))
    for topic, each in topics:
        result += _SHORT.pack(len(topic)) + topic
        result += struct.pack(f">i{len(each)}i", len(each), *each)
    return bytes(result + _INT.pack(_NULL))


class _Reader:
    def __init__(self, data: bytes, position: int = 0) -> None:
        self._data = data
        self._position = position
        self._names_left = NAMES_MAX
        self._partitions_left = PARTITIONS_MAX

    def short(self) -> int:
        return int.from_bytes(self._take(_SHORT.size), signed=True)

    def integer(self) -> int:
        return int.from_bytes(self._take(_INT.size), signed=True)

    def names(self) -> range:
        """One entry for each of the following names."""
        count = self._count()
        self._names_left -= count
        if self._names_left < 0:
            raise UnreadableSubscription(f"more than {NAMES_MAX} names")
        return range(count)

    def _count(self) -> int:
        count = self.integer()
        if count < 0:
            raise UnreadableSubscription(f"{count} entries")
        return count

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise UnreadableSubscription("a name that is null")
        return text

    def nullable_string(self) -> str | None:
        length = self.short()
        try:
            return None if length == _NULL else self._take(length).decode()
        except UnicodeDecodeError as error:
            raise UnreadableSubscription(str(error)) from error

    def nullable_bytes(self) -> bytes | None:
        length = self.integer()
        return None if length == _NULL else self._take(length)

    def strings(self) -> tuple[str, ...]:
        return tuple(self.string() for _ in self.names())

    def partitions(self) -> dict[str, tuple[int, ...]]:
        return {self.string(): self._integers() for _ in self.names()}

    def _integers(self) -> tuple[int, ...]:
        count = self._count()
        self._partitions_left -= count
        if self._partitions_left < 0:
            raise UnreadableSubscription(f"more than {PARTITIONS_MAX} partitions")
        return struct.unpack(f">{count}i", self._take(count * _INT.size))

    def _take(self, length: int) -> bytes:
        end = self._position + length
        if length < 0 or end > len(self._data):
            raise UnreadableSubscription(f"{length} bytes at {self._position}, of {len(self._data)}")
        taken = self._data[self._position : end]
        self._position = end
        return taken

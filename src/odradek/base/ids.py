"""Identifiers: partitions, and Kafka's 22-character format of UUIDs."""

import base64
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple
from uuid import UUID

ZERO_UUID = UUID(int=0)
NO_LEADER = -1
NO_EPOCH = -1

METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = UUID(int=1)


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def partitions_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, tuple[int, ...]]:
    """Partition numbers by topic, sorted, as most messages have them."""
    by_topic = groupby(sorted(partitions), key=lambda one: one.topic)
    return {topic: tuple(one.partition for one in some) for topic, some in by_topic}


def uuid_to_text(value: UUID) -> str:
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def uuid_from_text(text: str) -> UUID:
    """Raises ValueError unless the text is a UUID in Kafka's 22-character format."""
    raw = base64.urlsafe_b64decode(text + "==")
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a UUID: expected 22 characters of URL-safe base64")
    return UUID(bytes=raw)

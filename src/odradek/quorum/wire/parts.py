"""Nested parts of messages: one topic with one partition, and classes of requests."""

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Final

from odradek.base.ids import METADATA_TOPIC
from odradek.wire.schemas import Message, MessageClass, Schema

PARTITION: Final = 0
"""The only partition of the metadata log."""


@cache
def request_class(schema: Schema, name: str) -> MessageClass:
    """`Schema.new` prefers the response's classes, which may have the same name as those of the request."""
    return MessageClass(getattr(import_module(schema.request_type.__module__), name))


def only(parts: Sequence[Message] | None) -> Message | None:
    """The only element, or None. kio may read null for any array."""
    return parts[0] if parts and len(parts) == 1 else None


def only_partition(topics: Sequence[Message] | None) -> Message | None:
    """The partition, if the message is about the metadata log only."""
    topic = only(topics)
    if topic is None or topic.topic_name != METADATA_TOPIC:
        return None
    partition = only(topic.partitions)
    return partition if partition is not None and partition.partition_index == PARTITION else None


def request_topics(schema: Schema, **partition: object) -> tuple[Message, ...]:
    part = request_class(schema, "PartitionData")(partition_index=PARTITION, **partition)
    return (request_class(schema, "TopicData")(topic_name=METADATA_TOPIC, partitions=(part,)),)


def response_topics(schema: Schema, **partition: object) -> tuple[Message, ...]:
    part = schema.new("PartitionData", partition_index=PARTITION, **partition)
    return (schema.new("TopicData", topic_name=METADATA_TOPIC, partitions=(part,)),)

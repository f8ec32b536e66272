"""The nested parts of a message: one topic with one partition, and classes of the request's side."""

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Final

from odradek.base.ids import METADATA_TOPIC
from odradek.wire.schemas import Message, MessageClass, Schema

PARTITION: Final = 0
"""The metadata log's only one."""


@cache
def request_class(schema: Schema, name: str) -> MessageClass:
    """`Schema.new` looks on the response's side first, where a part of the same name may mean something else."""
    return MessageClass(getattr(import_module(schema.request_type.__module__), name))


def only(parts: Sequence[Message] | None) -> Message | None:
    """The single one. kio reads null also where no array may be null."""
    return parts[0] if parts and len(parts) == 1 else None


def only_partition(topics: Sequence[Message] | None) -> Message | None:
    """Of a message that is about the metadata log and nothing else."""
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

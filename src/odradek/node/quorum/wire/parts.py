"""The nested parts of a message: one topic with one partition, and classes of the request's side."""

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Final

from odradek.base.ids import METADATA_TOPIC
from odradek.protocol.schemas import Message, MessageClass, Schema

PARTITION: Final = 0
"""The metadata log's only one."""


@cache
def request_class(schema: Schema, name: str) -> MessageClass:
    """`Schema.new` looks on the response's side first, where a part of the same name may mean something else."""
    return MessageClass(getattr(import_module(schema.request_type.__module__), name))


def only_partition(topics: Sequence[Message]) -> Message | None:
    """Of a message that is about the metadata log and nothing else."""
    if len(topics) != 1 or topics[0].topic_name != METADATA_TOPIC or len(topics[0].partitions) != 1:
        return None
    partition = topics[0].partitions[0]
    return partition if partition.partition_index == PARTITION else None


def request_topics(schema: Schema, **partition: object) -> tuple[Message, ...]:
    part = request_class(schema, "PartitionData")(partition_index=PARTITION, **partition)
    return (request_class(schema, "TopicData")(topic_name=METADATA_TOPIC, partitions=(part,)),)


def response_topics(schema: Schema, **partition: object) -> tuple[Message, ...]:
    part = schema.new("PartitionData", partition_index=PARTITION, **partition)
    return (schema.new("TopicData", topic_name=METADATA_TOPIC, partitions=(part,)),)

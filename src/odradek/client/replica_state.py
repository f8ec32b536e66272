"""Replica state that Metadata does not contain: eligible leader replicas and the log end offset of each replica."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.admin import LATEST
from odradek.client.cluster import Cluster
from odradek.client.connection import milliseconds
from odradek.client.errors import ClientError
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

# With this replica id, ListOffsets returns the log end offset of any replica instead of the leader's high watermark.
_DEBUGGER: Final = -2
_PARTITIONS_MAX: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Eligible:
    """The eligible leader replicas, which hold all committed records, and the last known ones."""

    leaders: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()


def eligible_of(cluster: Cluster, topics: Collection[str]) -> dict[TopicPartition, Eligible]:
    """Return them for the first 2,000 partitions of these topics. Raises NotSupportedByBroker on older brokers."""

    def build(chosen: Schema) -> Message:
        return chosen.new(
            "DescribeTopicPartitionsRequest",
            topics=tuple(chosen.new("TopicRequest", name=name) for name in sorted(topics)),
            response_partition_limit=_PARTITIONS_MAX,
            cursor=None,
        )

    response = cluster.send_to_any(ApiKey.DESCRIBE_TOPIC_PARTITIONS, build)
    return {
        TopicPartition(topic.name, one.partition_index): Eligible(
            leaders=tuple(one.eligible_leader_replicas or ()), last_known=tuple(one.last_known_elr or ())
        )
        for topic in response.topics
        if topic.error_code is ErrorCode.none
        for one in topic.partitions
    }


def ends_of_replicas(
    cluster: Cluster, replicas: Mapping[TopicPartition, Collection[int]]
) -> dict[int, dict[TopicPartition, int]]:
    """Return log end offsets by broker. Brokers that do not respond or have no such replica are left out."""
    by_broker: dict[int, list[TopicPartition]] = {}
    for partition, brokers in replicas.items():
        for broker in brokers:
            by_broker.setdefault(broker, []).append(partition)
    found: dict[int, dict[TopicPartition, int]] = {}
    for broker, partitions in sorted(by_broker.items()):
        try:
            found[broker] = _ends_at(cluster, broker, partitions)
        except (KafkaError, ClientError):
            continue
    return found


def _ends_at(cluster: Cluster, broker: int, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    def build(chosen: Schema) -> Message:
        by_topic: dict[str, list[Message]] = {}
        for one in partitions:
            by_topic.setdefault(one.topic, []).append(
                chosen.new(
                    "ListOffsetsPartition", partition_index=one.partition, current_leader_epoch=-1, timestamp=LATEST
                )
            )
        return chosen.new(
            "ListOffsetsRequest",
            replica_id=_DEBUGGER,
            isolation_level=0,
            topics=tuple(
                chosen.new("ListOffsetsTopic", name=topic, partitions=tuple(held)) for topic, held in by_topic.items()
            ),
            timeout=milliseconds(cluster.timeout_s * 1000),
        )

    response = cluster.send_to_broker(broker, ApiKey.LIST_OFFSETS, build)
    return {
        TopicPartition(topic.name, one.partition_index): one.offset
        for topic in response.topics
        for one in topic.partitions
        if one.error_code is ErrorCode.none and one.offset >= 0
    }

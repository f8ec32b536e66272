"""Deletes records from the start of partitions."""

from collections.abc import Mapping
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.admin import raise_for_error
from odradek.client.cluster import Cluster
from odradek.client.connection import milliseconds
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

# Delete up to the high watermark.
ALL: Final = -1


def delete_records(cluster: Cluster, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Delete the records before the given offsets, or ALL. Returns the new start offset of each partition."""
    found: dict[TopicPartition, int] = {}

    def attempt() -> dict[TopicPartition, int]:
        layouts = cluster.topics(sorted({one.topic for one in before}))
        by_leader: dict[int, list[TopicPartition]] = {}
        for one in sorted(before.keys() - found.keys()):
            leader = layouts[one.topic].partitions[one.partition].leader
            if leader < 0:
                raise KafkaError(ErrorCode.leader_not_available, f"{one} has no leader")
            by_leader.setdefault(leader, []).append(one)
        for leader, partitions in by_leader.items():
            _delete_at(cluster, leader, {one: before[one] for one in partitions}, found)
        return found

    return cluster.retry("deleting records", attempt)


def _delete_at(
    cluster: Cluster, leader: int, before: Mapping[TopicPartition, int], found: dict[TopicPartition, int]
) -> None:
    def build(chosen: Schema) -> Message:
        by_topic: dict[str, list[Message]] = {}
        for one, offset in before.items():
            by_topic.setdefault(one.topic, []).append(
                chosen.new("DeleteRecordsPartition", partition_index=one.partition, offset=offset)
            )
        return chosen.new(
            "DeleteRecordsRequest",
            topics=tuple(
                chosen.new("DeleteRecordsTopic", name=topic, partitions=tuple(partitions))
                for topic, partitions in by_topic.items()
            ),
            timeout=milliseconds(cluster.timeout_s * 1000),
        )

    for topic in cluster.send_to_broker(leader, ApiKey.DELETE_RECORDS, build).topics:
        for one in topic.partitions:
            raise_for_error(one, topic.name)
            found[TopicPartition(topic.name, one.partition_index)] = one.low_watermark

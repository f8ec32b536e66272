"""The sizes of partitions on each broker."""

from collections.abc import Callable, Collection
from functools import partial

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition, partitions_by_topic
from odradek.client.admin import raise_for_error
from odradek.client.cluster import Cluster
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

Sizes = dict[TopicPartition, int]


def sizes_on(
    cluster: Cluster,
    brokers: Collection[int],
    partitions: Collection[TopicPartition] | None = None,
    *,
    on_response: Callable[[int], None] = lambda amount: None,
) -> dict[int, Sizes]:
    """Return bytes by broker and partition, for the given partitions or all of them.

    Replicas in offline log dirs and future replicas of log dir moves are not counted.
    """
    found: dict[int, Sizes] = {}
    for broker in brokers:
        found[broker] = cluster.retry(
            f"describing the log dirs of broker {broker}", partial(_send, cluster, broker, partitions)
        )
        on_response(1)
    return found


def _send(cluster: Cluster, broker: int, partitions: Collection[TopicPartition] | None) -> Sizes:
    def build(chosen: Schema) -> Message:
        if partitions is None:
            return chosen.new("DescribeLogDirsRequest", topics=None)
        topics = tuple(
            chosen.new("DescribableLogDirTopic", topic=topic, partitions=numbers)
            for topic, numbers in partitions_by_topic(partitions).items()
        )
        return chosen.new("DescribeLogDirsRequest", topics=topics)

    response = cluster.send_to_broker(broker, ApiKey.DESCRIBE_LOG_DIRS, build)
    if hasattr(response, "error_code"):
        raise_for_error(response)
    return {
        TopicPartition(topic.name, one.partition_index): one.partition_size
        for result in response.results
        if result.error_code is ErrorCode.none
        for topic in result.topics
        for one in topic.partitions
        if not one.is_future_key
    }

"""How much every broker stores of each partition."""

from collections.abc import Callable, Collection
from functools import partial

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition, partitions_by_topic
from odradek.client.admin import raise_refusal
from odradek.client.cluster import Cluster
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

Sizes = dict[TopicPartition, int]


def sizes_on(
    cluster: Cluster,
    brokers: Collection[int],
    partitions: Collection[TopicPartition] | None = None,
    *,
    on_answer: Callable[[int], None] = lambda amount: None,
) -> dict[int, Sizes]:
    """Bytes by broker and partition; of the given partitions, or of all. What lies in a log dir that has failed is not
    known, and neither is a copy counted that is on its way into another log dir.
    """
    found: dict[int, Sizes] = {}
    for broker in brokers:
        found[broker] = cluster.retry(f"asking broker {broker} for sizes", partial(_ask, cluster, broker, partitions))
        on_answer(1)
    return found


def _ask(cluster: Cluster, broker: int, partitions: Collection[TopicPartition] | None) -> Sizes:
    def build(chosen: Schema) -> Message:
        if partitions is None:
            return chosen.new("DescribeLogDirsRequest", topics=None)
        topics = tuple(
            chosen.new("DescribableLogDirTopic", topic=topic, partitions=numbers)
            for topic, numbers in partitions_by_topic(partitions).items()
        )
        return chosen.new("DescribeLogDirsRequest", topics=topics)

    response = cluster.ask_broker(broker, ApiKey.DESCRIBE_LOG_DIRS, build)
    if hasattr(response, "error_code"):
        raise_refusal(response)
    return {
        TopicPartition(topic.name, one.partition_index): one.partition_size
        for result in response.results
        if result.error_code is ErrorCode.none
        for topic in result.topics
        for one in topic.partitions
        if not one.is_future_key
    }

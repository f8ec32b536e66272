"""The partition that a request names, or what Kafka answers when this broker does not serve it."""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.handlers.context import BrokerPort
from odradek.partition.partition import Partition


def is_known(topic: str, index: int, broker: BrokerPort) -> bool:
    """Whether the cluster has the partition, wherever it lives."""
    found = broker.image.topics_by_name.get(topic)
    return found is not None and index in found.partitions


def find_partition(topic: str, index: int, broker: BrokerPort) -> Partition:
    """The partition as far as it can be served here, leading or not."""
    partition = broker.partition(topic, index)
    if partition is None:
        known = is_known(topic, index, broker)
        raise KafkaError(ErrorCode.not_leader_or_follower if known else ErrorCode.unknown_topic_or_partition)
    if partition.unavailable is not None:
        raise KafkaError(partition.unavailable)
    return partition

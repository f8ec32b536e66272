"""The partition that a request names, or what Kafka answers when this broker does not serve it."""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.broker.ports import BrokerPort
from odradek.storage.partition.partition import Partition


def is_known(topic: str, index: int, broker: BrokerPort) -> bool:
    """Whether the cluster has the partition, wherever it lives."""
    found = broker.image.topics_by_name.get(topic)
    return found is not None and index in found.partitions


def why_missing(topic: str, index: int, broker: BrokerPort) -> ErrorCode:
    """What to answer where `broker.partition` has nothing."""
    if broker.is_offline(topic, index):
        return ErrorCode.kafka_storage_error
    return ErrorCode.not_leader_or_follower if is_known(topic, index, broker) else ErrorCode.unknown_topic_or_partition


def find_partition(topic: str, index: int, broker: BrokerPort) -> Partition:
    """The partition as far as it can be served here, leading or not."""
    partition = broker.partition(topic, index)
    if partition is None:
        raise KafkaError(why_missing(topic, index, broker))
    if partition.unavailable is not None:
        raise KafkaError(partition.unavailable)
    return partition

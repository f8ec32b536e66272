"""Finds the partition of a request, or Kafka's error code if this broker does not host it."""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.broker.ports import BrokerPort
from odradek.storage.partition.partition import Partition


def is_known(topic: str, index: int, broker: BrokerPort) -> bool:
    """Whether the partition exists, on any broker."""
    found = broker.image.topics_by_name.get(topic)
    return found is not None and index in found.partitions


def why_missing(topic: str, index: int, broker: BrokerPort) -> ErrorCode:
    """The error code if `broker.partition` finds none."""
    if broker.is_offline(topic, index):
        return ErrorCode.kafka_storage_error
    return ErrorCode.not_leader_or_follower if is_known(topic, index, broker) else ErrorCode.unknown_topic_or_partition


def find_partition(topic: str, index: int, broker: BrokerPort) -> Partition:
    """The partition, whether or not this broker leads it. Raises KafkaError if it is unavailable."""
    partition = broker.partition(topic, index)
    if partition is None:
        raise KafkaError(why_missing(topic, index, broker))
    if partition.unavailable is not None:
        raise KafkaError(partition.unavailable)
    return partition

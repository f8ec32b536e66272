"""DescribeProducers, version 0: the active producers of a partition, and their open transactions."""

from datetime import timedelta

from odradek.base.errors import ErrorCode, KafkaError
from odradek.broker.apis.hosted_partition import find_partition
from odradek.broker.ports import BrokerPort
from odradek.core.metadata.topic_names import why_invalid
from odradek.server.context import RequestContext
from odradek.storage.log.producer_entry import ProducerEntry
from odradek.wire.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message:
    return context.new(
        "DescribeProducersResponse",
        throttle_time=timedelta(0),
        topics=tuple(_describe_topic(topic, context, broker) for topic in request.topics),
    )


def _describe_topic(topic: Message, context: RequestContext, broker: BrokerPort) -> Message:
    invalid = why_invalid(topic.name)
    if invalid is not None:
        error = KafkaError(ErrorCode.invalid_topic_exception, invalid)
    elif topic.name not in broker.image.topics_by_name:
        error = KafkaError(ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition.")
    else:
        described = (_describe_partition(topic.name, index, context, broker) for index in topic.partition_indexes)
        return context.new("TopicResponse", name=topic.name, partitions=tuple(described))
    errors = (_partition(context, index, error) for index in topic.partition_indexes)
    return context.new("TopicResponse", name=topic.name, partitions=tuple(errors))


def _describe_partition(topic: str, index: int, context: RequestContext, broker: BrokerPort) -> Message:
    try:
        producers = find_partition(topic, index, broker).log.producers.producers
    except KafkaError as error:
        return _partition(context, index, error)
    # Copied first: the thread of the log dir may be writing.
    active = tuple(_producer(context, entry) for entry in list(producers.values()))
    return _partition(context, index, None, active)


def _producer(context: RequestContext, entry: ProducerEntry) -> Message:
    return context.new(
        "ProducerState",
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.transaction_first_offset,
    )


def _partition(
    context: RequestContext, index: int, error: KafkaError | None, active: tuple[Message, ...] = ()
) -> Message:
    return context.new(
        "PartitionResponse",
        partition_index=index,
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
        active_producers=active,
    )

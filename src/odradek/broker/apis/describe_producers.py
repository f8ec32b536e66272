"""DescribeProducers, version 0: the active producers of a partition, and their open transactions."""

from collections.abc import Awaitable
from datetime import timedelta
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.message_walk import ANY_NUMBER
from odradek.base.slices import Slices
from odradek.broker.apis.authorization import AllowedTopics, allowed_topics
from odradek.broker.apis.hosted_partition import find_partition
from odradek.broker.apis.sliced_response import describe_topics
from odradek.broker.ports import BrokerPort
from odradek.core.metadata.topic_names import why_invalid
from odradek.core.security.resources import Operation
from odradek.server.context import RequestContext
from odradek.storage.log.producer_entry import ProducerEntry
from odradek.wire.schemas import Message

ELEMENTS_MAX: Final = ANY_NUMBER


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | Awaitable[Message]:
    return broker.slice_turns.start(_respond(request, context, broker))


def _respond(request: Message, context: RequestContext, broker: BrokerPort) -> Slices[Message]:
    allowed = allowed_topics(context.access, Operation.READ)
    topics = yield from describe_topics(
        ((topic.name, topic.partition_indexes) for topic in request.topics),
        lambda topic, index: _describe_partition(topic, index, allowed, context, broker),
        lambda topic, partitions: context.new("TopicResponse", name=topic, partitions=partitions),
    )
    return context.new("DescribeProducersResponse", throttle_time=timedelta(0), topics=topics)


def _describe_partition(
    topic: str, index: int, allowed: AllowedTopics | None, context: RequestContext, broker: BrokerPort
) -> Message:
    try:
        invalid = why_invalid(topic)
        if invalid is not None:
            raise KafkaError(ErrorCode.invalid_topic_exception, invalid)
        if allowed is not None and topic not in allowed:
            raise KafkaError(ErrorCode.topic_authorization_failed, "Topic authorization failed.")
        if topic not in broker.image.topics_by_name:
            raise KafkaError(ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition.")
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

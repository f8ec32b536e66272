"""OffsetForLeaderEpoch, versions 2 to 4: the end offset of a leader epoch, to detect a truncated log."""

from collections.abc import Awaitable
from datetime import timedelta
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.message_walk import ANY_NUMBER
from odradek.base.slices import Slices
from odradek.broker.apis.authorization import AllowedTopics
from odradek.broker.apis.hosted_partition import find_partition
from odradek.broker.apis.sliced_response import describe_topics
from odradek.broker.ports import BrokerPort
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType
from odradek.server.context import RequestContext
from odradek.storage.log.leader_epochs import UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
from odradek.wire.schemas import Message

ELEMENTS_MAX: Final = ANY_NUMBER


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | Awaitable[Message]:
    return broker.slice_turns.start(_respond(request, context, broker))


def _respond(request: Message, context: RequestContext, broker: BrokerPort) -> Slices[Message]:
    requested: tuple[Message, ...] = request.topics
    denied: tuple[Message, ...] = ()
    if context.access.is_restricted:
        requested, denied = _split(request.topics, context)
    topics = yield from describe_topics(
        ((topic.topic, topic.partitions) for topic in requested),
        lambda topic, one: _end_of_epoch(topic, one, context, broker),
        lambda topic, partitions: context.new("OffsetForLeaderTopicResult", topic=topic, partitions=partitions),
    )
    denied_topics = yield from describe_topics(
        ((topic.topic, topic.partitions) for topic in denied),
        lambda _, one: _denied(one, context),
        lambda topic, partitions: context.new("OffsetForLeaderTopicResult", topic=topic, partitions=partitions),
    )
    return context.new("OffsetForLeaderEpochResponse", throttle_time=timedelta(0), topics=topics + denied_topics)


def _split(topics: tuple[Message, ...], context: RequestContext) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """The topics that the client may describe, and the others. Brokers may describe all."""
    access = context.access
    if access.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, logs_denial=False):
        return topics, ()
    allowed = AllowedTopics(access, Operation.DESCRIBE)
    return (
        tuple(topic for topic in topics if topic.topic in allowed),
        tuple(topic for topic in topics if topic.topic not in allowed),
    )


def _denied(requested: Message, context: RequestContext) -> Message:
    return context.new(
        "EpochEndOffset",
        error_code=ErrorCode.topic_authorization_failed,
        partition=requested.partition,
        leader_epoch=UNDEFINED_EPOCH,
        end_offset=UNDEFINED_EPOCH_OFFSET,
    )


def _end_of_epoch(topic: str, requested: Message, context: RequestContext, broker: BrokerPort) -> Message:
    error, epoch, end_offset = ErrorCode.none, UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
    try:
        partition = find_partition(topic, requested.partition, broker)
        partition.check_leader(requested.current_leader_epoch)
        log = partition.log
        epoch, end_offset = log.epochs.end_offset_for(requested.leader_epoch, log.log_end_offset)
    except KafkaError as failure:
        error = failure.code
    return context.new(
        "EpochEndOffset", error_code=error, partition=requested.partition, leader_epoch=epoch, end_offset=end_offset
    )

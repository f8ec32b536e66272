"""OffsetForLeaderEpoch, versions 2 to 4: the end offset of a leader epoch, to detect a truncated log."""

from collections.abc import Awaitable
from datetime import timedelta
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.message_walk import ANY_NUMBER
from odradek.base.slices import Slices
from odradek.broker.apis.hosted_partition import find_partition
from odradek.broker.apis.sliced_response import describe_topics
from odradek.broker.ports import BrokerPort
from odradek.server.context import RequestContext
from odradek.storage.log.leader_epochs import UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
from odradek.wire.schemas import Message

ELEMENTS_MAX: Final = ANY_NUMBER


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | Awaitable[Message]:
    return broker.slice_turns.start(_respond(request, context, broker))


def _respond(request: Message, context: RequestContext, broker: BrokerPort) -> Slices[Message]:
    topics = yield from describe_topics(
        ((topic.topic, topic.partitions) for topic in request.topics),
        lambda topic, requested: _end_of_epoch(topic, requested, context, broker),
        lambda topic, partitions: context.new("OffsetForLeaderTopicResult", topic=topic, partitions=partitions),
    )
    return context.new("OffsetForLeaderEpochResponse", throttle_time=timedelta(0), topics=topics)


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

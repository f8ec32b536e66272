"""OffsetDelete, version 0: offsets of a group that nobody is to go on from."""

from collections.abc import Iterable

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.broker.apis.coordinator_response import NOT_THROTTLED, respond_with
from odradek.broker.apis.topic_errors import merged
from odradek.broker.ports import BrokerPort
from odradek.core.groups.commands import (
    DeleteOffsets,
    DeleteOffsetsResponse,
    PartitionError,
    TopicErrors,
    TopicPartitions,
)
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | DeferredResponse:
    topics: list[TopicPartitions] = []
    rejected: list[TopicErrors] = []
    for asked in request.topics:
        topic = broker.image.topics_by_name.get(asked.name)
        known: list[int] = []
        missing: list[int] = []
        for one in asked.partitions:
            is_known = topic is not None and one.partition_index in topic.partitions
            (known if is_known else missing).append(one.partition_index)
        if known:
            topics.append(TopicPartitions(asked.name, known))
        if missing:
            error = ErrorCode.unknown_topic_or_partition
            rejected.append(TopicErrors(asked.name, tuple(PartitionError(index, error) for index in missing)))
    command = DeleteOffsets(request.group_id, topics)

    def respond(answer: DeleteOffsetsResponse) -> Message:
        # A rejection of the whole says nothing of its parts.
        parts = merged(rejected, answer.topics) if answer.error is ErrorCode.none else ()
        return _response(answer.error, parts, context)

    return respond_with(broker.groups.submit(command), respond)


def _response(error: ErrorCode, topics: Iterable[TopicErrors], context: RequestContext) -> Message:
    return context.new(
        "OffsetDeleteResponse",
        throttle_time=NOT_THROTTLED,
        error_code=error,
        topics=tuple(
            context.new(
                "OffsetDeleteResponseTopic",
                name=topic.topic,
                partitions=tuple(
                    context.new("OffsetDeleteResponsePartition", partition_index=one.partition, error_code=one.error)
                    for one in topic.partitions
                ),
            )
            for topic in topics
        ),
    )

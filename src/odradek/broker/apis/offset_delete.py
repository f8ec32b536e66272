"""OffsetDelete, version 0: deletes committed offsets of a group."""

from collections.abc import Iterable

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.broker.apis.authorization import allowed_topics
from odradek.broker.apis.coordinator_response import NOT_THROTTLED, respond_with
from odradek.broker.apis.topic_errors import merge_errors
from odradek.broker.ports import BrokerPort
from odradek.core.groups.commands import (
    DeleteOffsets,
    DeleteOffsetsResponse,
    PartitionError,
    TopicErrors,
    TopicPartitions,
)
from odradek.core.security.resources import Operation, ResourceType
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | DeferredResponse:
    access = context.access
    if access.is_restricted and not access.allows(Operation.DELETE, ResourceType.GROUP, request.group_id):
        return _response(ErrorCode.group_authorization_failed, (), context)
    allowed = allowed_topics(access, Operation.READ)
    topics: list[TopicPartitions] = []
    rejected: list[TopicErrors] = []
    for requested in request.topics:
        if allowed is not None and requested.name not in allowed:
            error = ErrorCode.topic_authorization_failed
            errors = tuple(PartitionError(one.partition_index, error) for one in requested.partitions)
            rejected.append(TopicErrors(requested.name, errors))
            continue
        topic = broker.image.topics_by_name.get(requested.name)
        known: list[int] = []
        missing: list[int] = []
        for one in requested.partitions:
            is_known = topic is not None and one.partition_index in topic.partitions
            (known if is_known else missing).append(one.partition_index)
        if known:
            topics.append(TopicPartitions(requested.name, known))
        if missing:
            error = ErrorCode.unknown_topic_or_partition
            rejected.append(TopicErrors(requested.name, tuple(PartitionError(index, error) for index in missing)))
    command = DeleteOffsets(request.group_id, topics)

    def respond(response: DeleteOffsetsResponse) -> Message:
        # An error of the whole request has no partition errors.
        parts = merge_errors(rejected, response.topics) if response.error is ErrorCode.none else ()
        return _response(response.error, parts, context)

    return respond_with(broker.groups.coordinator_of(request.group_id).submit(command), respond)


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

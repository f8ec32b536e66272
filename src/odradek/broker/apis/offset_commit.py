"""OffsetCommit, versions 2 to 10: commits offsets of a group. Since version 10 requests name topics by their ids.

This handler rejects unknown partitions; the coordinator decides on the others.
"""

from collections.abc import Sequence
from typing import Final

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.broker.apis.authorization import AllowedTopics, may_read_group
from odradek.broker.apis.coordinator_response import NOT_THROTTLED, milliseconds, respond_with
from odradek.broker.apis.topic_errors import merge_errors
from odradek.broker.ports import BrokerPort
from odradek.core.groups.commands import (
    DEFAULT_RETENTION,
    NO_LEADER_EPOCH,
    CommitOffsets,
    CommitResponse,
    PartitionError,
    PartitionOffset,
    TopicErrors,
    TopicOffsets,
)
from odradek.core.metadata.image import TopicImage
from odradek.core.security.resources import Operation
from odradek.server.context import RequestContext
from odradek.wire.offset_commit_codec import (
    FIRST_BY_TOPIC_ID,
    CommitRequest,
    CommitTopic,
    read_plain,
    write_success_response,
)
from odradek.wire.schemas import Message

read_request: Final = read_plain
"""Reads the usual requests; the schema reads the others."""


def handle(
    request: Message | CommitRequest, context: RequestContext, broker: BrokerPort
) -> Message | bytes | DeferredResponse:
    allowed: AllowedTopics | None = None
    if context.access.is_restricted:
        if not may_read_group(context.access, request.group_id):
            error = ErrorCode.group_authorization_failed
            denied = [_reject(one, _offsets(one), error, context.version) for one in request.topics]
            return _response(denied, context)
        allowed = AllowedTopics(context.access, Operation.READ)
    topics: list[TopicOffsets] = []
    rejected: list[TopicErrors] = []
    for requested in request.topics:
        topic = _topic(requested, context.version, broker)
        offsets = _offsets(requested)
        if allowed is not None and _is_denied(requested, topic, context.version, allowed):
            rejected.append(_reject(requested, offsets, ErrorCode.topic_authorization_failed, context.version))
        elif topic is None:
            is_named = context.version < FIRST_BY_TOPIC_ID
            error = ErrorCode.unknown_topic_or_partition if is_named else ErrorCode.unknown_topic_id
            rejected.append(_reject(requested, offsets, error, context.version))
        else:
            _split(offsets, topic, topics, rejected)
    if not topics:
        return _response(rejected, context)
    # Versions 2 to 4 have one.
    retention = getattr(request, "retention_time", None)
    command = CommitOffsets(
        context.version,
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        getattr(request, "group_instance_id", None),
        topics,
        DEFAULT_RETENTION if retention is None else milliseconds(retention),
    )

    def respond(response: CommitResponse) -> Message | bytes:
        return _response(merge_errors(rejected, response.topics) if rejected else response.topics, context)

    deferred = broker.groups.coordinator_of(request.group_id).submit(command)
    # Commits are executed in the order of their requests: the next one need not wait for this response.
    deferred.allows_next_request = True
    return respond_with(deferred, respond)


def _topic(requested: Message, version: int, broker: BrokerPort) -> TopicImage | None:
    image = broker.image
    return (
        image.topics_by_name.get(requested.name)
        if version < FIRST_BY_TOPIC_ID
        else image.topics_by_id.get(requested.topic_id)
    )


def _offsets(requested: Message | CommitTopic) -> Sequence[PartitionOffset]:
    if isinstance(requested, CommitTopic):
        return requested.partitions
    return [
        PartitionOffset(
            one.partition_index,
            one.committed_offset,
            getattr(one, "committed_leader_epoch", NO_LEADER_EPOCH),
            one.committed_metadata,
        )
        for one in requested.partitions
    ]


def _reject(
    requested: Message | CommitTopic, offsets: Sequence[PartitionOffset], error: ErrorCode, version: int
) -> TopicErrors:
    errors = tuple(PartitionError(one.partition, error) for one in offsets)
    if version < FIRST_BY_TOPIC_ID:
        return TopicErrors(requested.name, errors)
    return TopicErrors("", errors, requested.topic_id)


def _is_denied(
    requested: Message | CommitTopic, topic: TopicImage | None, version: int, allowed: AllowedTopics
) -> bool:
    """Unknown names are checked, so that a client cannot find out whether a denied topic exists."""
    if version < FIRST_BY_TOPIC_ID:
        return requested.name not in allowed
    return topic is not None and topic.name not in allowed


def _split(
    offsets: Sequence[PartitionOffset], topic: TopicImage, topics: list[TopicOffsets], rejected: list[TopicErrors]
) -> None:
    missing = [one for one in offsets if one.partition not in topic.partitions]
    if missing:
        error = ErrorCode.unknown_topic_or_partition
        rejected.append(
            TopicErrors(topic.name, tuple(PartitionError(one.partition, error) for one in missing), topic.id)
        )
        offsets = [one for one in offsets if one.partition in topic.partitions]
    if offsets:
        topics.append(TopicOffsets(topic.name, offsets, topic.id))


def _response(topics: Sequence[TopicErrors], context: RequestContext) -> Message | bytes:
    return write_success_response(topics, context.version) or context.new(
        "OffsetCommitResponse",
        throttle_time=NOT_THROTTLED,
        topics=tuple(
            context.new(
                "OffsetCommitResponseTopic",
                name=topic.topic,
                topic_id=topic.topic_id,
                partitions=tuple(
                    context.new("OffsetCommitResponsePartition", partition_index=one.partition, error_code=one.error)
                    for one in topic.partitions
                ),
            )
            for topic in topics
        ),
    )

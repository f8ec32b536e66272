"""OffsetCommit, versions 2 to 10: how far a group has come. Since version 10 topics are named by their ids.

Partitions that do not exist are rejected here; of all others the coordinator decides.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.broker.apis.coordinator_response import NOT_THROTTLED, milliseconds, respond_with
from odradek.broker.apis.topic_errors import merged
from odradek.broker.ports import BrokerPort
from odradek.core.groups.commands import (
    DEFAULT_RETENTION,
    CommitOffsets,
    CommitResponse,
    PartitionError,
    PartitionOffset,
    TopicErrors,
    TopicOffsets,
)
from odradek.core.metadata.image import TopicImage
from odradek.server.context import RequestContext
from odradek.wire.offset_commit_codec import FIRST_BY_TOPIC_ID, CommitRequest, all_committed, read_plain
from odradek.wire.schemas import Message

_RETENTION: Final = timedelta(milliseconds=DEFAULT_RETENTION)


read_request: Final = read_plain
"""What is usual; the rest comes by its declaration."""


def handle(
    request: Message | CommitRequest, context: RequestContext, broker: BrokerPort
) -> Message | bytes | DeferredResponse:
    topics: list[TopicOffsets] = []
    rejected: list[TopicErrors] = []
    for asked in request.topics:
        topic = _topic(asked, context.version, broker)
        if topic is None:
            rejected.append(_unknown(asked, context.version))
        else:
            _sort_out(asked, topic, topics, rejected)
    if not topics:
        return _response(rejected, context)
    command = CommitOffsets(
        context.version,
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        getattr(request, "group_instance_id", None),
        topics,
        milliseconds(getattr(request, "retention_time", _RETENTION)),
    )

    def respond(answer: CommitResponse) -> Message | bytes:
        return _response(merged(rejected, answer.topics) if rejected else answer.topics, context)

    deferred = broker.groups.submit(command)
    # Commits are executed in the order of their requests: the next one need not wait for this response.
    deferred.allows_next_request = True
    return respond_with(deferred, respond)


def _topic(asked: Message, version: int, broker: BrokerPort) -> TopicImage | None:
    image = broker.image
    return (
        image.topics_by_name.get(asked.name) if version < FIRST_BY_TOPIC_ID else image.topics_by_id.get(asked.topic_id)
    )


def _unknown(asked: Message, version: int) -> TopicErrors:
    by_id = version >= FIRST_BY_TOPIC_ID
    error = ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
    errors = tuple(PartitionError(one.partition_index, error) for one in asked.partitions)
    return TopicErrors("", errors, asked.topic_id) if by_id else TopicErrors(asked.name, errors)


def _sort_out(asked: Message, topic: TopicImage, topics: list[TopicOffsets], rejected: list[TopicErrors]) -> None:
    offsets = []
    missing = []
    for one in asked.partitions:
        if one.partition_index in topic.partitions:
            offsets.append(
                PartitionOffset(
                    one.partition_index,
                    one.committed_offset,
                    getattr(one, "committed_leader_epoch", -1),
                    one.committed_metadata,
                )
            )
        else:
            missing.append(PartitionError(one.partition_index, ErrorCode.unknown_topic_or_partition))
    if offsets:
        topics.append(TopicOffsets(topic.name, offsets, topic.id))
    if missing:
        rejected.append(TopicErrors(topic.name, tuple(missing), topic.id))


def _response(topics: Sequence[TopicErrors], context: RequestContext) -> Message | bytes:
    return all_committed(topics, context.version) or context.new(
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

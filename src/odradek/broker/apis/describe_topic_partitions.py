"""DescribeTopicPartitions, version 0: topics sorted by name, one page of partitions at a time."""

from collections.abc import Iterable
from datetime import timedelta

from odradek.base.errors import ErrorCode
from odradek.broker.apis.cluster_view import NO_BROKER, leader_endpoint, offline_replicas
from odradek.broker.ports import BrokerPort
from odradek.core.metadata.image import ClusterImage, PartitionImage, TopicImage
from odradek.core.metadata.topic_names import INTERNAL_TOPICS, why_invalid
from odradek.server.apis.authorized_operations import NOT_REQUESTED, TOPIC_OPERATIONS
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message:
    image = broker.image
    requested = {topic.name for topic in request.topics}
    cursor = request.cursor
    if "" in requested and cursor is None:
        # As in Kafka, which takes the empty name for that of the missing cursor.
        return _error_response(context, request, ErrorCode.unknown_server_error)
    if cursor is not None and (cursor.partition_index < 0 or (requested and cursor.topic_name not in requested)):
        return _error_response(context, request, ErrorCode.invalid_request)
    from_topic = "" if cursor is None else cursor.topic_name
    names = sorted(name for name in requested or image.topics_by_name if name >= from_topic)
    limit = max(min(broker.config.max_request_partition_size_limit, request.response_partition_limit), 1)
    topics: list[Message] = []
    for name in names:
        if limit == 0:
            return _response(context, topics, _cursor(context, name, 0))
        topic = image.topics_by_name.get(name)
        if topic is None:
            # Only requested names can be unknown.
            topics.append(_reject_topic(context, name))
            continue
        start = cursor.partition_index if cursor is not None and name == from_topic else 0
        end = min(len(topic.partitions), start + limit)
        page = [(index, topic.partitions[index]) for index in range(start, end) if index in topic.partitions]
        topics.append(_describe_topic(context, image, topic, page))
        if end < len(topic.partitions):
            return _response(context, topics, _cursor(context, name, end))
        limit -= len(page)
    return _response(context, topics, None)


def _describe_topic(
    context: RequestContext, image: ClusterImage, topic: TopicImage, page: Iterable[tuple[int, PartitionImage]]
) -> Message:
    listener = context.listener_name
    partitions = tuple(
        context.new(
            "DescribeTopicPartitionsResponsePartition",
            error_code=ErrorCode.none,
            partition_index=index,
            leader_id=NO_BROKER if leader_endpoint(image, partition, listener) is None else partition.leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=partition.replicas,
            isr_nodes=partition.isr,
            eligible_leader_replicas=partition.elr,
            last_known_elr=partition.last_known_elr,
            offline_replicas=offline_replicas(image, partition, listener),
        )
        for index, partition in page
    )
    return context.new(
        "DescribeTopicPartitionsResponseTopic",
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _reject_topic(context: RequestContext, name: str) -> Message:
    return context.new(
        "DescribeTopicPartitionsResponseTopic",
        error_code=ErrorCode.invalid_topic_exception if why_invalid(name) else ErrorCode.unknown_topic_or_partition,
        name=name,
        topic_id=None,
        is_internal=name in INTERNAL_TOPICS,
        partitions=(),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _error_response(context: RequestContext, request: Message, error: ErrorCode) -> Message:
    topics = [
        context.new(
            "DescribeTopicPartitionsResponseTopic",
            error_code=error,
            name=topic.name,
            topic_id=None,
            is_internal=False,
            partitions=(),
            topic_authorized_operations=NOT_REQUESTED,
        )
        for topic in request.topics
    ]
    return _response(context, topics, None)


def _cursor(context: RequestContext, topic: str, partition: int) -> Message:
    return context.new("Cursor", topic_name=topic, partition_index=partition)


def _response(context: RequestContext, topics: list[Message], next_cursor: Message | None) -> Message:
    return context.new(
        "DescribeTopicPartitionsResponse",
        throttle_time=timedelta(0),
        topics=tuple(topics),
        next_cursor=next_cursor,
    )

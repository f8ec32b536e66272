"""DescribeTopicPartitions, version 0: topics sorted by name, one page of partitions at a time."""

from collections.abc import Awaitable, Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from heapq import merge
from itertools import islice
from typing import Final, NamedTuple

from odradek.base.errors import ErrorCode
from odradek.base.message_walk import ANY_NUMBER
from odradek.base.slices import Slices
from odradek.broker.apis.cluster_view import NO_BROKER, leader_endpoint, offline_replicas
from odradek.broker.ports import BrokerPort
from odradek.core.metadata.image import ClusterImage, PartitionImage, TopicImage
from odradek.core.metadata.topic_names import INTERNAL_TOPICS, why_invalid
from odradek.core.security.access import Access
from odradek.core.security.resources import Operation, ResourceType
from odradek.server.authorized_operations import NOT_REQUESTED, authorized_operations
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

ELEMENTS_MAX: Final = ANY_NUMBER

# Names that are sorted, and partitions that are described, before other connections are served.
_SLICE_NAMES: Final = 2000
_SLICE_PARTITIONS: Final = 200
# Names that are authorized before other connections are served.
_SLICE_CHECKS: Final = 100
# Authorizing every operation on a topic takes as long as describing so many partitions.
_RESTRICTED_TOPIC_COST: Final = 20


class _Page(NamedTuple):
    """Where the page starts, and how many partitions it may have."""

    from_topic: str
    from_partition: int
    limit: int


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | Awaitable[Message]:
    return broker.slice_turns.start(_respond(request, context, broker))


def _respond(request: Message, context: RequestContext, broker: BrokerPort) -> Slices[Message]:
    image, cursor = broker.image, request.cursor
    requested: set[str] = set()
    for start in range(0, len(request.topics), _SLICE_NAMES):
        requested.update(topic.name for topic in request.topics[start : start + _SLICE_NAMES])
        if start + _SLICE_NAMES < len(request.topics):
            yield
    if "" in requested and cursor is None:
        # As in Kafka, which takes the empty name for that of the missing cursor.
        return _error_response(context, request, ErrorCode.unknown_server_error)
    if cursor is not None and (cursor.partition_index < 0 or (requested and cursor.topic_name not in requested)):
        return _error_response(context, request, ErrorCode.invalid_request)
    limit = max(min(broker.config.max_request_partition_size_limit, request.response_partition_limit), 1)
    page = _Page("", 0, limit) if cursor is None else _Page(cursor.topic_name, cursor.partition_index, limit)
    names, denied = yield from _sort(requested or image.topics_by_name, page.from_topic, context.access)
    response = yield from _describe_page(names, page, context, image)
    if requested and denied:
        # As in Kafka, each page ends with all of them. If all topics are requested, they are left out.
        return replace(response, topics=(*response.topics, *(_deny_topic(context, name) for name in denied)))
    return response


def _sort(names: Iterable[str], from_topic: str, access: Access) -> Slices[tuple[Iterator[str], list[str]]]:
    """The names from `from_topic` on that the client may describe, only sorted as far as the page needs them; and the
    others from there on, sorted."""
    runs: list[list[str]] = []
    denied: list[str] = []
    remaining = iter(names)
    size = _SLICE_CHECKS if access.is_restricted else _SLICE_NAMES
    while some := list(islice(remaining, size)):
        run = [name for name in some if name >= from_topic]
        if access.is_restricted:
            run, others = _authorize(run, access)
            denied += others
        runs.append(sorted(run))
        if len(some) == size:
            yield
    return merge(*runs), sorted(denied)


def _authorize(names: Iterable[str], access: Access) -> tuple[list[str], list[str]]:
    allowed: list[str] = []
    denied: list[str] = []
    for name in names:
        (allowed if access.allows(Operation.DESCRIBE, ResourceType.TOPIC, name) else denied).append(name)
    return allowed, denied


def _describe_page(names: Iterator[str], page: _Page, context: RequestContext, image: ClusterImage) -> Slices[Message]:
    topics: list[Message] = []
    limit, in_slice = page.limit, 0
    topic_cost = _RESTRICTED_TOPIC_COST if context.access.is_restricted else 1
    for name in names:
        if limit == 0:
            return _response(context, topics, _cursor(context, name, 0))
        topic = image.topics_by_name.get(name)
        if topic is None:
            # Only requested names can be unknown.
            topics.append(_reject_topic(context, name))
            in_slice += topic_cost
        else:
            start = page.from_partition if name == page.from_topic else 0
            end = min(len(topic.partitions), start + limit)
            indexes = [index for index in range(start, end) if index in topic.partitions]
            topics.append((yield from _describe_topic(context, image, topic, indexes)))
            if end < len(topic.partitions):
                return _response(context, topics, _cursor(context, name, end))
            limit -= len(indexes)
            in_slice += topic_cost + len(indexes) % _SLICE_PARTITIONS
        if in_slice >= _SLICE_PARTITIONS:
            in_slice = 0
            yield
    return _response(context, topics, None)


def _describe_topic(
    context: RequestContext, image: ClusterImage, topic: TopicImage, indexes: list[int]
) -> Slices[Message]:
    partitions: list[Message] = []
    for start in range(0, len(indexes), _SLICE_PARTITIONS):
        some = indexes[start : start + _SLICE_PARTITIONS]
        partitions += [_describe_partition(context, image, index, topic.partitions[index]) for index in some]
        if len(some) == _SLICE_PARTITIONS:
            yield
    return context.new(
        "DescribeTopicPartitionsResponseTopic",
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(partitions),
        topic_authorized_operations=authorized_operations(context.access, ResourceType.TOPIC, topic.name),
    )


def _describe_partition(context: RequestContext, image: ClusterImage, index: int, partition: PartitionImage) -> Message:
    listener = context.listener_name
    return context.new(
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


def _reject_topic(context: RequestContext, name: str) -> Message:
    return context.new(
        "DescribeTopicPartitionsResponseTopic",
        error_code=ErrorCode.invalid_topic_exception if why_invalid(name) else ErrorCode.unknown_topic_or_partition,
        name=name,
        topic_id=None,
        is_internal=name in INTERNAL_TOPICS,
        partitions=(),
        topic_authorized_operations=authorized_operations(context.access, ResourceType.TOPIC, name),
    )


def _deny_topic(context: RequestContext, name: str) -> Message:
    return _topic_with_error(context, name, ErrorCode.topic_authorization_failed)


def _error_response(context: RequestContext, request: Message, error: ErrorCode) -> Message:
    return _response(context, [_topic_with_error(context, topic.name, error) for topic in request.topics], None)


def _topic_with_error(context: RequestContext, name: str, error: ErrorCode) -> Message:
    return context.new(
        "DescribeTopicPartitionsResponseTopic",
        error_code=error,
        name=name,
        topic_id=None,
        is_internal=False,
        partitions=(),
        topic_authorized_operations=NOT_REQUESTED,
    )


def _cursor(context: RequestContext, topic: str, partition: int) -> Message:
    return context.new("Cursor", topic_name=topic, partition_index=partition)


def _response(context: RequestContext, topics: list[Message], next_cursor: Message | None) -> Message:
    return context.new(
        "DescribeTopicPartitionsResponse",
        throttle_time=timedelta(0),
        topics=tuple(topics),
        next_cursor=next_cursor,
    )

"""Metadata, versions 0 to 13: brokers, topics and leaders, as clients of this listener reach them.

Missing topics are created where broker and client allow it. As with Kafka, the answer still says that the topic is
unknown, and the client finds it when it asks again.
"""

from collections.abc import Awaitable, Iterable
from datetime import timedelta
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.handlers.broker.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from odradek.handlers.broker.auto_topic_creation import create_topics
from odradek.handlers.broker.cluster_view import (
    NOBODY,
    is_alive,
    leader_endpoint,
    offline_replicas,
    random_alive_broker,
    reachable_brokers,
)
from odradek.handlers.context import BrokerPort, RequestContext
from odradek.metadata.image import ClusterImage, PartitionImage, TopicImage
from odradek.metadata.topic_names import INTERNAL_TOPICS, why_invalid
from odradek.protocol.schemas import Message

_FIRST_BY_TOPIC_ID = 12
_FIRST_WITH_LISTENER_NOT_FOUND = 6


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | Awaitable[Message]:
    image = broker.image
    asked = request.topics
    if asked is None or (context.version == 0 and not asked):
        everything = [_present(topic, image, request, context) for topic in image.topics_by_name.values()]
        return _response(everything, image, request, context, broker)
    if context.version < _FIRST_BY_TOPIC_ID and any(
        topic.name is None or getattr(topic, "topic_id", None) is not None for topic in asked
    ):
        return _refusal(ErrorCode.invalid_request, request, context)
    ids = dict.fromkeys(topic.topic_id for topic in asked if getattr(topic, "topic_id", None) is not None)
    if ids:
        # One id, and the names beside it do not count any more.
        return _response(_topics_by_id(ids, image, request, context), image, request, context, broker)
    names = dict.fromkeys(topic.name for topic in asked)
    if None in names:
        return _refusal(ErrorCode.unknown_server_error, request, context)
    found = [image.topics_by_name[name] for name in names if name in image.topics_by_name]
    topics = [_present(topic, image, request, context) for topic in found]
    missing = [name for name in names if name not in image.topics_by_name]
    if missing and broker.config.auto_create_topics_enable and getattr(request, "allow_auto_topic_creation", True):
        return _create_and_respond(topics, missing, image, request, context, broker)
    topics += [_absent(name, request, context) for name in missing]
    return _response(topics, image, request, context, broker)


async def _create_and_respond(
    topics: list[Message],
    missing: list[str],
    image: ClusterImage,
    request: Message,
    context: RequestContext,
    broker: BrokerPort,
) -> Message:
    legal = [name for name in missing if why_invalid(name) is None]
    if legal:
        await create_topics(legal, broker)
    illegal = [name for name in missing if why_invalid(name) is not None]
    topics += [_absent(name, request, context) for name in (*illegal, *legal)]
    return _response(topics, image, request, context, broker)


def _topics_by_id(ids: Iterable[UUID], image: ClusterImage, request: Message, context: RequestContext) -> list[Message]:
    known = {topic_id: image.topics_by_id.get(topic_id) for topic_id in ids}
    unknown = [
        _topic(context, ErrorCode.unknown_topic_id, None, topic_id, is_internal=False)
        for topic_id, topic in known.items()
        if topic is None
    ]
    return unknown + [_present(topic, image, request, context) for topic in known.values() if topic is not None]


def _present(topic: TopicImage, image: ClusterImage, request: Message, context: RequestContext) -> Message:
    return _topic(
        context,
        ErrorCode.none,
        topic.name,
        topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(_partition(index, one, image, context) for index, one in topic.partitions.items()),
        operations=_topic_operations(request),
    )


def _absent(name: str, request: Message, context: RequestContext) -> Message:
    return _topic(
        context,
        ErrorCode.unknown_topic_or_partition if why_invalid(name) is None else ErrorCode.invalid_topic_exception,
        name,
        None,
        is_internal=name in INTERNAL_TOPICS,
        operations=_topic_operations(request),
    )


def _topic_operations(request: Message) -> int:
    return TOPIC_OPERATIONS if getattr(request, "include_topic_authorized_operations", False) else NOT_ASKED


def _topic(
    context: RequestContext,
    error: ErrorCode,
    name: str | None,
    topic_id: UUID | None,
    *,
    is_internal: bool,
    partitions: tuple[Message, ...] = (),
    operations: int = NOT_ASKED,
) -> Message:
    return context.new(
        "MetadataResponseTopic",
        error_code=error,
        name=name,
        topic_id=topic_id,
        is_internal=is_internal,
        partitions=partitions,
        topic_authorized_operations=operations,
    )


def _partition(index: int, partition: PartitionImage, image: ClusterImage, context: RequestContext) -> Message:
    listener = context.listener_name
    replicas, isr = partition.replicas, partition.isr
    if context.version == 0:
        # Later clients are told of brokers that are away, and see in the list of brokers that they cannot be reached.
        replicas = tuple(one for one in replicas if is_alive(image, one, listener))
        isr = tuple(one for one in isr if is_alive(image, one, listener))
    error = ErrorCode.none
    leader_is_there = leader_endpoint(image, partition, listener) is not None
    if not leader_is_there:
        lacks_listener = partition.leader in image.brokers and context.version >= _FIRST_WITH_LISTENER_NOT_FOUND
        error = ErrorCode.listener_not_found if lacks_listener else ErrorCode.leader_not_available
    elif len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
        error = ErrorCode.replica_not_available
    return context.new(
        "MetadataResponsePartition",
        error_code=error,
        partition_index=index,
        leader_id=partition.leader if leader_is_there else NOBODY,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline_replicas(image, partition, listener),
    )


def _response(
    topics: list[Message], image: ClusterImage, request: Message, context: RequestContext, broker: BrokerPort
) -> Message:
    with_cluster_operations = getattr(request, "include_cluster_authorized_operations", False)
    brokers = tuple(
        context.new("MetadataResponseBroker", node_id=one.id, host=endpoint.host, port=endpoint.port, rack=one.rack)
        for one, endpoint in reachable_brokers(image, context.listener_name)
        if not one.fenced
    )
    return context.new(
        "MetadataResponse",
        throttle_time=timedelta(0),
        brokers=brokers,
        cluster_id=broker.cluster_id,
        controller_id=random_alive_broker(image, broker.random),
        topics=tuple(topics),
        cluster_authorized_operations=CLUSTER_OPERATIONS if with_cluster_operations else NOT_ASKED,
        error_code=ErrorCode.none,
    )


def _refusal(error: ErrorCode, request: Message, context: RequestContext) -> Message:
    topics = tuple(
        _topic(context, error, topic.name or "", getattr(topic, "topic_id", None), is_internal=False)
        for topic in request.topics
    )
    return context.new(
        "MetadataResponse",
        throttle_time=timedelta(0),
        brokers=(),
        cluster_id=None,
        controller_id=NOBODY,
        topics=topics,
        cluster_authorized_operations=NOT_ASKED,
        error_code=error,
    )

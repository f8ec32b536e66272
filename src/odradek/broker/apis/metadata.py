"""Metadata, versions 0 to 13: brokers, topics and leaders, with the addresses of the client's listener.

Missing topics are created if broker and client allow it. As in Kafka, the response still says that the topic is
unknown, and the client finds it with its next request.
"""

from collections.abc import Awaitable, Iterable, Sequence
from typing import Final
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.base.ports import Client
from odradek.broker.apis.auto_topic_creation import create_topics
from odradek.broker.apis.cluster_view import (
    NO_BROKER,
    is_alive,
    leader_endpoint,
    offline_replicas,
    random_alive_broker,
    reachable_brokers,
)
from odradek.broker.ports import BrokerPort
from odradek.core.metadata.image import PartitionImage, TopicImage
from odradek.core.metadata.topic_names import INTERNAL_TOPICS, why_invalid
from odradek.server.apis.authorized_operations import CLUSTER_OPERATIONS, NOT_REQUESTED, TOPIC_OPERATIONS
from odradek.server.context import RequestContext
from odradek.wire.metadata_codec import MetadataBroker, MetadataPartition, MetadataTopic, write_metadata_response
from odradek.wire.schemas import Message

_FIRST_BY_TOPIC_ID: Final = 12
_FIRST_WITH_LISTENER_NOT_FOUND: Final = 6


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> bytes | Awaitable[bytes]:
    view = _View(broker, request, context)
    requested = request.topics
    if requested is None or (context.version == 0 and not requested):
        return _response(view, view.describe_topics(broker.image.topics_by_name.values()), broker)
    if context.version < _FIRST_BY_TOPIC_ID and any(
        topic.name is None or getattr(topic, "topic_id", None) is not None for topic in requested
    ):
        return _error_response(ErrorCode.invalid_request, request, context)
    ids = dict.fromkeys(topic.topic_id for topic in requested if getattr(topic, "topic_id", None) is not None)
    if ids:
        # As in Kafka, names are ignored if there is any ID.
        return _response(view, view.by_id(ids), broker)
    names = dict.fromkeys(topic.name for topic in requested)
    if None in names:
        return _error_response(ErrorCode.unknown_server_error, request, context)
    known = broker.image.topics_by_name
    found = view.describe_topics(known[name] for name in names if name in known)
    missing = [name for name in names if name not in known]
    if missing and broker.config.auto_create_topics_enable and getattr(request, "allow_auto_topic_creation", True):
        return _create_and_respond(view, found, missing, context.client, broker)
    return _response(view, [*found, *view.reject_topics(missing)], broker)


async def _create_and_respond(
    view: "_View", found: list[MetadataTopic], missing: list[str], client: Client, broker: BrokerPort
) -> bytes:
    legal = [name for name in missing if why_invalid(name) is None]
    if legal:
        await create_topics(legal, client, broker)
    illegal = [name for name in missing if why_invalid(name) is not None]
    return _response(view, [*found, *view.reject_topics(illegal), *view.reject_topics(legal)], broker)


class _View:
    """The cluster as this request sees it."""

    def __init__(self, broker: BrokerPort, request: Message, context: RequestContext) -> None:
        self.image: Final = broker.image
        self._unreachable_leaders: Final = broker.unreachable_leaders()
        self.version: Final = context.version
        self.listener: Final = context.listener_name
        self.with_cluster_operations: Final[bool] = getattr(request, "include_cluster_authorized_operations", False)
        with_topic_operations = getattr(request, "include_topic_authorized_operations", False)
        self._operations: Final = TOPIC_OPERATIONS if with_topic_operations else NOT_REQUESTED
        # Cached, since there are far fewer replica sets than partitions.
        self._offline: Final[dict[tuple[tuple[int, ...], tuple[UUID | None, ...]], tuple[int, ...]]] = {}

    def describe_topics(self, topics: Iterable[TopicImage]) -> list[MetadataTopic]:
        return [
            MetadataTopic(
                ErrorCode.none,
                topic.name,
                topic.id,
                topic.name in INTERNAL_TOPICS,
                [self._partition(index, partition) for index, partition in topic.partitions.items()],
                self._operations,
            )
            for topic in topics
        ]

    def reject_topics(self, names: Iterable[str]) -> list[MetadataTopic]:
        return [
            MetadataTopic(
                ErrorCode.unknown_topic_or_partition
                if why_invalid(name) is None
                else ErrorCode.invalid_topic_exception,
                name,
                None,
                name in INTERNAL_TOPICS,
                (),
                self._operations,
            )
            for name in names
        ]

    def by_id(self, ids: Iterable[UUID]) -> list[MetadataTopic]:
        known = {topic_id: self.image.topics_by_id.get(topic_id) for topic_id in ids}
        unknown = [
            MetadataTopic(ErrorCode.unknown_topic_id, None, topic_id, False, (), NOT_REQUESTED)
            for topic_id, topic in known.items()
            if topic is None
        ]
        return unknown + self.describe_topics(topic for topic in known.values() if topic is not None)

    def _partition(self, index: int, partition: PartitionImage) -> MetadataPartition:
        replicas, isr = partition.replicas, partition.isr
        if self.version == 0:
            # Later versions return offline brokers too: clients compare them with the list of brokers.
            replicas = tuple(one for one in replicas if is_alive(self.image, one, self.listener))
            isr = tuple(one for one in isr if is_alive(self.image, one, self.listener))
        error = ErrorCode.none
        leader_id = partition.leader
        if leader_endpoint(self.image, partition, self.listener) is None:
            lacks_listener = leader_id in self.image.brokers and self.version >= _FIRST_WITH_LISTENER_NOT_FOUND
            error = ErrorCode.listener_not_found if lacks_listener else ErrorCode.leader_not_available
            leader_id = NO_BROKER
        elif leader_id in self._unreachable_leaders:
            # A successor is about to be elected: without a leader, the client retries soon.
            error, leader_id = ErrorCode.leader_not_available, NO_BROKER
        elif len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
            error = ErrorCode.replica_not_available
        return MetadataPartition(
            error, index, leader_id, partition.leader_epoch, replicas, isr, self._offline_replicas(partition)
        )

    def _offline_replicas(self, partition: PartitionImage) -> tuple[int, ...]:
        key = (partition.replicas, partition.directories)
        found = self._offline.get(key)
        if found is None:
            found = self._offline[key] = offline_replicas(self.image, partition, self.listener)
        return found


def _response(view: _View, topics: Sequence[MetadataTopic], broker: BrokerPort) -> bytes:
    return write_metadata_response(
        view.version,
        brokers=[
            MetadataBroker(one.id, endpoint.host, endpoint.port, one.rack)
            for one, endpoint in reachable_brokers(view.image, view.listener)
            if not one.fenced
        ],
        cluster_id=broker.cluster_id,
        controller_id=random_alive_broker(view.image, broker.random),
        topics=topics,
        cluster_operations=CLUSTER_OPERATIONS if view.with_cluster_operations else NOT_REQUESTED,
        error=ErrorCode.none,
    )


def _error_response(error: ErrorCode, request: Message, context: RequestContext) -> bytes:
    topics = [
        MetadataTopic(error, topic.name or "", getattr(topic, "topic_id", None), False, (), NOT_REQUESTED)
        for topic in request.topics
    ]
    return write_metadata_response(
        context.version,
        brokers=(),
        cluster_id=None,
        controller_id=NO_BROKER,
        topics=topics,
        cluster_operations=NOT_REQUESTED,
        error=error,
    )

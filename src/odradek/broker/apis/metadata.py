"""Metadata, versions 0 to 13: brokers, topics and leaders, with the addresses of the client's listener.

Missing topics are created if broker and client allow it. As in Kafka, the response still says that the topic is
unknown, and the client finds it with its next request. Responses about thousands of topics are built in slices.
"""

import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.base.message_walk import ANY_NUMBER
from odradek.base.slices import Slices, run_at_once
from odradek.broker.apis.auto_topic_creation import create_topics
from odradek.broker.apis.cluster_view import NO_BROKER, random_alive_broker
from odradek.broker.apis.metadata_topics import TopicEncoder
from odradek.broker.ports import BrokerPort
from odradek.core.metadata.image import ClusterImage, TopicImage
from odradek.core.metadata.topic_names import INTERNAL_TOPICS, why_invalid
from odradek.server.authorized_operations import CLUSTER_OPERATIONS, NOT_REQUESTED, TOPIC_OPERATIONS
from odradek.server.context import RequestContext
from odradek.wire.metadata_codec import (
    MetadataTopic,
    write_brokers,
    write_head,
    write_tail,
    write_topic,
    write_topic_end,
)
from odradek.wire.schemas import Message

K = TypeVar("K")

ELEMENTS_MAX: Final = ANY_NUMBER
# Missing topics that one request creates. The client's next request creates more.
CREATED_TOPICS_MAX: Final = 250
# Requested topics that are looked up before other connections are served.
_SLICE_TOPICS: Final = 1000
_FIRST_BY_TOPIC_ID: Final = 12


class _Wanted(NamedTuple):
    """The topics of one response."""

    image: ClusterImage
    found: Sequence[TopicImage] | None = None
    """None: all topics."""
    unknown_ids: Sequence[UUID] = ()
    missing: Sequence[str] = ()
    created: Sequence[str] = ()
    """Missing topics that this request creates."""
    error: ErrorCode = ErrorCode.none
    """Of the whole request, which is then rejected."""


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Any:
    requested = request.topics
    if requested is None or (context.version == 0 and not requested):
        return broker.slice_turns.start(_response(_Wanted(broker.image), request, context, broker))
    creates = broker.config.auto_create_topics_enable and getattr(request, "allow_auto_topic_creation", True)
    look_up = _look_up(requested, context.version, broker.image, creates=creates)
    if len(requested) > _SLICE_TOPICS:
        return _handle_in_slices(look_up, request, context, broker)
    wanted = run_at_once(look_up)
    if wanted.created:
        return _create_and_respond(wanted, request, context, broker)
    return broker.slice_turns.start(_response(wanted, request, context, broker))


async def _handle_in_slices(
    look_up: Slices[_Wanted], request: Message, context: RequestContext, broker: BrokerPort
) -> list[bytes]:
    """Thousands of topics: serves other connections in between."""
    return await _create_and_respond(await broker.slice_turns.run(look_up), request, context, broker)


async def _create_and_respond(
    wanted: _Wanted, request: Message, context: RequestContext, broker: BrokerPort
) -> list[bytes]:
    if wanted.created:
        await create_topics(wanted.created, context.client, broker)
    return await broker.slice_turns.run(_response(wanted, request, context, broker))


# What is requested


def _look_up(requested: Sequence[Message], version: int, image: ClusterImage, *, creates: bool) -> Slices[_Wanted]:
    ids: dict[UUID, None] = {}
    names: dict[str | None, None] = {}
    for number, topic in enumerate(requested, 1):
        topic_id = getattr(topic, "topic_id", None)
        if topic_id is not None:
            ids[topic_id] = None
        names[topic.name] = None
        if number % _SLICE_TOPICS == 0:
            yield
    if version < _FIRST_BY_TOPIC_ID and (ids or None in names):
        return _Wanted(image, error=ErrorCode.invalid_request)
    if ids:
        # As in Kafka, names are ignored if there is any ID.
        found, unknown_ids = yield from _find(ids, image.topics_by_id)
        return _Wanted(image, found, unknown_ids=unknown_ids)
    if None in names:
        return _Wanted(image, error=ErrorCode.unknown_server_error)
    found, missing = yield from _find(typing.cast(dict[str, None], names), image.topics_by_name)
    if not missing or not creates:
        return _Wanted(image, found, missing=missing)
    legal, illegal = yield from _split(missing)
    return _Wanted(image, found, missing=[*illegal, *legal], created=legal[:CREATED_TOPICS_MAX])


def _find(keys: Iterable[K], topics: Mapping[K, TopicImage]) -> Slices[tuple[list[TopicImage], list[K]]]:
    """The topics, and the keys without a topic."""
    found: list[TopicImage] = []
    missing: list[K] = []
    for number, key in enumerate(keys, 1):
        topic = topics.get(key)
        if topic is None:
            missing.append(key)
        else:
            found.append(topic)
        if number % _SLICE_TOPICS == 0:
            yield
    return found, missing


def _split(names: Iterable[str]) -> Slices[tuple[list[str], list[str]]]:
    """The legal names, and the others."""
    legal: list[str] = []
    illegal: list[str] = []
    for number, name in enumerate(names, 1):
        (legal if why_invalid(name) is None else illegal).append(name)
        if number % _SLICE_TOPICS == 0:
            yield
    return legal, illegal


# The response


def _response(wanted: _Wanted, request: Message, context: RequestContext, broker: BrokerPort) -> Slices[list[bytes]]:
    image, version, listener = wanted.image, context.version, context.listener_name
    if wanted.error is not ErrorCode.none:
        return (yield from _error_response(wanted.error, request.topics, version))
    with_operations = getattr(request, "include_topic_authorized_operations", False)
    operations = TOPIC_OPERATIONS if with_operations else NOT_REQUESTED
    unreachable = frozenset(broker.unreachable_leaders())
    encoder = TopicEncoder(image, listener, version, unreachable, broker.metadata_cache)
    topics = image.topics_by_name.values() if wanted.found is None else wanted.found
    head = write_head(
        version,
        encoder.brokers,
        broker.cluster_id,
        random_alive_broker(image, broker.random),
        len(topics) + len(wanted.unknown_ids) + len(wanted.missing),
    )
    unknown = yield from _write_topics(map(_unknown_topic, wanted.unknown_ids), version)
    found = yield from encoder.encode(topics, write_topic_end(version, operations))
    missing = yield from _write_topics((_reject_topic(name, operations) for name in wanted.missing), version)
    with_cluster_operations = getattr(request, "include_cluster_authorized_operations", False)
    cluster_operations = CLUSTER_OPERATIONS if with_cluster_operations else NOT_REQUESTED
    return [head, *unknown, *found, *missing, write_tail(version, cluster_operations, ErrorCode.none)]


def _write_topics(topics: Iterable[MetadataTopic], version: int) -> Slices[list[bytes]]:
    """Topics without partitions."""
    chunks: list[bytes] = []
    out = bytearray()
    for number, topic in enumerate(topics, 1):
        out += write_topic(version, topic) + write_topic_end(version, topic.operations)
        if number % _SLICE_TOPICS == 0:
            chunks.append(bytes(out))
            out.clear()
            yield
    return [*chunks, bytes(out)]


def _unknown_topic(topic_id: UUID) -> MetadataTopic:
    return MetadataTopic(ErrorCode.unknown_topic_id, None, topic_id, False, (), NOT_REQUESTED)


def _reject_topic(name: str, operations: int) -> MetadataTopic:
    is_legal = why_invalid(name) is None
    error = ErrorCode.unknown_topic_or_partition if is_legal else ErrorCode.invalid_topic_exception
    return MetadataTopic(error, name, None, name in INTERNAL_TOPICS, (), operations)


def _error_response(error: ErrorCode, requested: Sequence[Message], version: int) -> Slices[list[bytes]]:
    topics = yield from _write_topics(
        (
            MetadataTopic(error, topic.name or "", getattr(topic, "topic_id", None), False, (), NOT_REQUESTED)
            for topic in requested
        ),
        version,
    )
    head = write_head(version, write_brokers(version, ()), None, NO_BROKER, len(requested))
    return [head, *topics, write_tail(version, NOT_REQUESTED, error)]

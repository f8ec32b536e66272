"""Metadata, versions 0 to 13: brokers, topics and leaders, with the addresses of the client's listener.

Missing topics are created if broker and client allow it. As in Kafka, the response still says that the topic is
unknown, and the client finds it with its next request. Responses about thousands of topics are built in slices.
"""

import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from odradek.core.security.access import Access
from odradek.core.security.resources import Operation, ResourceType
from odradek.server.authorized_operations import (
    NOT_REQUESTED,
    TOPIC_OPERATIONS,
    authorized_operations,
    cluster_operations,
)
from odradek.server.context import RequestContext
from odradek.server.denials import allows_cluster
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
T = TypeVar("T")

ELEMENTS_MAX: Final = ANY_NUMBER
# Missing topics that one request creates. The client's next request creates more.
CREATED_TOPICS_MAX: Final = 250
# Requested topics that are looked up before other connections are served.
_SLICE_TOPICS: Final = 1000
# Topics that are authorized before other connections are served.
_SLICE_CHECKS: Final = 100
# The same, of all operations on a topic.
_SLICE_OPERATIONS: Final = 10
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
    not_creatable: Sequence[str] = ()
    """Missing topics that the client may describe, but not create."""
    denied: Sequence[str] = ()
    """The response does not tell whether they exist."""
    denied_ids: Sequence[UUID] = ()
    error: ErrorCode = ErrorCode.none
    """Of the whole request, which is then rejected."""


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Any:
    requested = request.topics
    if requested is None or (context.version == 0 and not requested):
        return broker.slice_turns.start(_respond_with_all(request, context, broker))
    creates = broker.config.auto_create_topics_enable and getattr(request, "allow_auto_topic_creation", True)
    look_up = _look_up(requested, context.version, broker.image, context.access, creates=creates)
    if len(requested) > (_SLICE_CHECKS if context.access.is_restricted else _SLICE_TOPICS):
        return _handle_in_slices(look_up, request, context, broker)
    wanted = run_at_once(look_up)
    if wanted.created:
        return _create_and_respond(wanted, request, context, broker)
    return broker.slice_turns.start(_response(wanted, request, context, broker))


def _respond_with_all(request: Message, context: RequestContext, broker: BrokerPort) -> Slices[list[bytes]]:
    wanted = _Wanted(broker.image)
    if context.access.is_restricted:
        # Topics that the client may not describe are left out.
        everything = wanted.image.topics_by_name.values()
        found, _ = yield from _authorize(everything, _name_of, Operation.DESCRIBE, context.access, logs_denial=False)
        wanted = wanted._replace(found=found)
    return (yield from _response(wanted, request, context, broker))


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


def _look_up(
    requested: Sequence[Message], version: int, image: ClusterImage, access: Access, *, creates: bool
) -> Slices[_Wanted]:
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
        return (yield from _look_up_ids(ids, image, access))
    if None in names:
        return _Wanted(image, error=ErrorCode.unknown_server_error)
    return (yield from _look_up_names(typing.cast(dict[str, None], names), image, access, creates=creates))


def _look_up_ids(ids: Iterable[UUID], image: ClusterImage, access: Access) -> Slices[_Wanted]:
    found, unknown_ids = yield from _find(ids, image.topics_by_id)
    if not access.is_restricted:
        return _Wanted(image, found, unknown_ids=unknown_ids)
    allowed, denied = yield from _authorize(found, _name_of, Operation.DESCRIBE, access)
    return _Wanted(image, allowed, unknown_ids=unknown_ids, denied_ids=[topic.id for topic in denied])


def _look_up_names(names: Iterable[str], image: ClusterImage, access: Access, *, creates: bool) -> Slices[_Wanted]:
    denied: Sequence[str] = ()
    if access.is_restricted:
        # Before it is known which topics exist.
        names, denied = yield from _authorize(names, _itself, Operation.DESCRIBE, access)
    found, missing = yield from _find(names, image.topics_by_name)
    wanted = _Wanted(image, found, missing=missing, denied=denied)
    if not missing or not creates:
        return wanted
    if not allows_cluster(access, Operation.CREATE, logs_denial=False):
        missing, not_creatable = yield from _authorize(missing, _itself, Operation.CREATE, access)
        wanted = wanted._replace(not_creatable=not_creatable)
    legal, illegal = yield from _split(missing)
    return wanted._replace(missing=[*illegal, *legal], created=legal[:CREATED_TOPICS_MAX])


def _authorize(
    resources: Iterable[T],
    name_of: Callable[[T], str],
    operation: Operation,
    access: Access,
    *,
    logs_denial: bool = True,
) -> Slices[tuple[list[T], list[T]]]:
    """The topics for which the operation is allowed, and the others."""
    allowed: list[T] = []
    denied: list[T] = []
    for number, one in enumerate(resources, 1):
        is_allowed = access.allows(operation, ResourceType.TOPIC, name_of(one), logs_denial=logs_denial)
        (allowed if is_allowed else denied).append(one)
        if number % _SLICE_CHECKS == 0:
            yield
    return allowed, denied


def _name_of(topic: TopicImage) -> str:
    return topic.name


def _itself(name: str) -> str:
    return name


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
    with_operations: bool = getattr(request, "include_topic_authorized_operations", False)
    unreachable = frozenset(broker.unreachable_leaders())
    encoder = TopicEncoder(image, listener, version, unreachable, broker.metadata_cache)
    topics = image.topics_by_name.values() if wanted.found is None else wanted.found
    others = (wanted.unknown_ids, wanted.missing, wanted.not_creatable, wanted.denied, wanted.denied_ids)
    head = write_head(
        version,
        encoder.brokers,
        broker.cluster_id,
        random_alive_broker(image, broker.random),
        len(topics) + sum(map(len, others)),
    )
    unknown = yield from _write_topics(map(_unknown_topic, wanted.unknown_ids), version)
    if with_operations and context.access.is_restricted:
        found = yield from _encode_with_operations(encoder, topics, context)
    else:
        operations = TOPIC_OPERATIONS if with_operations else NOT_REQUESTED
        found = yield from encoder.encode(topics, write_topic_end(version, operations))
    missing = yield from _write_topics(_rejected_topics(wanted, context, with_operations=with_operations), version)
    clusters = cluster_operations(
        context.access, is_requested=getattr(request, "include_cluster_authorized_operations", False)
    )
    return [head, *unknown, *found, *missing, write_tail(version, clusters, ErrorCode.none)]


def _encode_with_operations(
    encoder: TopicEncoder, topics: Iterable[TopicImage], context: RequestContext
) -> Slices[list[bytes]]:
    """The encoded topics are the same for all clients; what follows each of them is not."""
    chunks: list[bytes] = []
    for number, topic in enumerate(topics, 1):
        operations = authorized_operations(context.access, ResourceType.TOPIC, topic.name)
        chunks += yield from encoder.encode((topic,), write_topic_end(context.version, operations))
        if number % _SLICE_OPERATIONS == 0:
            yield
    return chunks


def _rejected_topics(wanted: _Wanted, context: RequestContext, *, with_operations: bool) -> Iterator[MetadataTopic]:
    for name in wanted.missing:
        operations = NOT_REQUESTED
        if with_operations:
            operations = authorized_operations(context.access, ResourceType.TOPIC, name)
        yield _reject_topic(name, operations)
    for name in wanted.not_creatable:
        yield _deny_topic(name, None, is_internal=name in INTERNAL_TOPICS)
    for name in wanted.denied:
        yield _deny_topic(name, None, is_internal=False)
    for topic_id in wanted.denied_ids:
        yield _deny_topic(None, topic_id, is_internal=False)


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


def _deny_topic(name: str | None, topic_id: UUID | None, *, is_internal: bool) -> MetadataTopic:
    return MetadataTopic(ErrorCode.topic_authorization_failed, name, topic_id, is_internal, (), NOT_REQUESTED)


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

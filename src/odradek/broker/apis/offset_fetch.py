"""OffsetFetch, versions 1 to 10: the committed offsets of groups. Since version 8 of many groups, since version 10 with
topics named by their ids."""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import Final
from uuid import UUID

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.broker.apis.authorization import allowed_topics
from odradek.broker.apis.coordinator_response import NOT_THROTTLED, respond_with, respond_with_all
from odradek.broker.ports import BrokerPort
from odradek.core.groups.commands import (
    NO_LEADER_EPOCH,
    NO_MEMBER_EPOCH,
    NO_OFFSET,
    FetchedPartition,
    FetchedTopic,
    FetchOffsets,
    FetchOffsetsResponse,
    TopicPartitions,
)
from odradek.core.security.resources import Operation, ResourceType
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

_FIRST_WITH_ERROR: Final = 2
_FIRST_WITH_SEVERAL_GROUPS: Final = 8
_FIRST_BY_TOPIC_ID: Final = 10
_PER_TURN_MAX: Final = 200


class _GroupRequest:
    """The request for one group: the command to its coordinator, and the errors found here."""

    def __init__(self, requested: Message, context: RequestContext, broker: BrokerPort, *, stable: bool) -> None:
        self._context: Final = context
        self._broker: Final = broker
        access = context.access
        self._is_denied: Final = access.is_restricted and not access.allows(
            Operation.DESCRIBE, ResourceType.GROUP, requested.group_id
        )
        self._allowed: Final = None if self._is_denied else allowed_topics(access, Operation.DESCRIBE)
        self._rejected: Final[list[FetchedTopic]] = []
        topics = None if requested.topics is None else [*self._resolve_topics(requested.topics)]
        member_id, member_epoch = (
            getattr(requested, "member_id", None),
            getattr(requested, "member_epoch", NO_MEMBER_EPOCH),
        )
        self.command: Final = FetchOffsets(requested.group_id, topics, stable, member_id, member_epoch)

    def _resolve_topics(self, topics: Iterable[Message]) -> Iterable[TopicPartitions]:
        for topic in topics:
            name, topic_id, error = self._resolve(topic)
            if error is None:
                yield TopicPartitions(name, topic.partition_indexes, topic_id)
            else:
                self._rejected.append(_reject_topic(name, topic.partition_indexes, error, topic_id))

    def _resolve(self, topic: Message) -> tuple[str, UUID | None, ErrorCode | None]:
        name, topic_id = "", None
        if self._context.version < _FIRST_BY_TOPIC_ID:
            name = topic.name
        else:
            topic_id = topic.topic_id
            known = self._broker.image.topics_by_id.get(topic_id)
            if known is None:
                return name, topic_id, ErrorCode.unknown_topic_id
            name = known.name
        is_denied = self._allowed is not None and name not in self._allowed
        return name, topic_id, ErrorCode.topic_authorization_failed if is_denied else None

    def submit(self) -> DeferredResponse:
        """To the coordinator, unless the client may not describe the group."""
        group_id = self.command.group_id
        if self._is_denied:
            denied = FetchOffsetsResponse(group_id, ErrorCode.group_authorization_failed)
            return DeferredResponse.from_result(denied)
        return self._broker.groups.coordinator_of(group_id).submit(self.command)

    def topics(self, response: FetchOffsetsResponse) -> tuple[FetchedTopic, ...]:
        if response.error is not ErrorCode.none:
            if self._context.version >= _FIRST_WITH_ERROR:
                return ()
            requested = self.command.topics or ()
            failed = (_reject_topic(topic.topic, topic.partitions, response.error, None) for topic in requested)
            return (*failed, *self._rejected)
        topics: Iterable[FetchedTopic] = response.topics
        if self.command.topics is None and self._allowed is not None:
            topics = [topic for topic in topics if topic.topic in self._allowed]
        if self._context.version < _FIRST_BY_TOPIC_ID:
            return (*topics, *self._rejected)
        return (*self._with_ids(topics), *self._rejected)

    def _with_ids(self, topics: Iterable[FetchedTopic]) -> Iterable[FetchedTopic]:
        for topic in topics:
            known = self._broker.image.topics_by_name.get(topic.topic)
            topic_id = topic.topic_id or (None if known is None else known.id)
            # A deleted topic has no id to name it by.
            if topic_id is not None:
                yield topic._replace(topic_id=topic_id)


def handle(
    request: Message, context: RequestContext, broker: BrokerPort
) -> Message | DeferredResponse | Awaitable[Message]:
    stable = getattr(request, "require_stable", False)
    if context.version < _FIRST_WITH_SEVERAL_GROUPS:
        group_request = _GroupRequest(request, context, broker, stable=stable)
        return respond_with(
            group_request.submit(),
            lambda response: _response(group_request, response, context),
        )
    if len(request.groups) > _PER_TURN_MAX:
        return _fetch_in_slices(request, context, broker)
    requests = [_GroupRequest(group, context, broker, stable=stable) for group in request.groups]
    return respond_with_all(
        [one.submit() for one in requests], lambda responses: _response_of_many(requests, responses, context)
    )


def _response(group_request: _GroupRequest, response: FetchOffsetsResponse, context: RequestContext) -> Message:
    return context.new(
        "OffsetFetchResponse",
        throttle_time=NOT_THROTTLED,
        topics=tuple(
            context.new(
                "OffsetFetchResponseTopic",
                name=topic.topic,
                partitions=_partitions("OffsetFetchResponsePartition", topic, context),
            )
            for topic in group_request.topics(response)
        ),
        error_code=response.error,
    )


async def _fetch_in_slices(request: Message, context: RequestContext, broker: BrokerPort) -> Message:
    """For thousands of groups: it yields to other connections. All commands are submitted before it waits."""
    requests: list[_GroupRequest] = []
    deferred: list[DeferredResponse] = []
    for number, group in enumerate(request.groups, 1):
        group_request = _GroupRequest(group, context, broker, stable=request.require_stable)
        requests.append(group_request)
        deferred.append(group_request.submit())
        if number % _PER_TURN_MAX == 0:
            await asyncio.sleep(0)
    groups: list[Message] = []
    for number, group_request in enumerate(requests, 1):
        groups.append(_group(group_request, await deferred[number - 1].wait(), context))
        if number % _PER_TURN_MAX == 0:
            await asyncio.sleep(0)
    return context.new("OffsetFetchResponse", throttle_time=NOT_THROTTLED, groups=tuple(groups))


def _response_of_many(
    requests: Sequence[_GroupRequest], responses: Sequence[FetchOffsetsResponse], context: RequestContext
) -> Message:
    groups = tuple(
        _group(group_request, response, context) for group_request, response in zip(requests, responses, strict=True)
    )
    return context.new("OffsetFetchResponse", throttle_time=NOT_THROTTLED, groups=groups)


def _group(group_request: _GroupRequest, response: FetchOffsetsResponse, context: RequestContext) -> Message:
    return context.new(
        "OffsetFetchResponseGroup",
        group_id=response.group_id,
        topics=tuple(
            context.new(
                "OffsetFetchResponseTopics",
                name=topic.topic,
                topic_id=topic.topic_id,
                partitions=_partitions("OffsetFetchResponsePartitions", topic, context),
            )
            for topic in group_request.topics(response)
        ),
        error_code=response.error,
    )


def _partitions(class_name: str, topic: FetchedTopic, context: RequestContext) -> tuple[Message, ...]:
    return tuple(
        context.new(
            class_name,
            partition_index=one.partition,
            committed_offset=one.offset,
            committed_leader_epoch=one.leader_epoch,
            metadata=one.metadata,
            error_code=one.error,
        )
        for one in topic.partitions
    )


def _reject_topic(topic: str, partitions: Iterable[int], error: ErrorCode, topic_id: object) -> FetchedTopic:
    return FetchedTopic(
        topic,
        tuple(FetchedPartition(index, NO_OFFSET, NO_LEADER_EPOCH, "", error) for index in partitions),
        topic_id,  # type: ignore[arg-type]
    )

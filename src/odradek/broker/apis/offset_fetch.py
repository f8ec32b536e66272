"""OffsetFetch, versions 1 to 10: the committed offsets of groups. Since version 8 of many groups, since version 10 with
topics named by their ids."""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import Final

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
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
        self._rejected: Final[list[FetchedTopic]] = []
        topics = None if requested.topics is None else [*self._resolve_topics(requested.topics)]
        member_id, member_epoch = (
            getattr(requested, "member_id", None),
            getattr(requested, "member_epoch", NO_MEMBER_EPOCH),
        )
        self.command: Final = FetchOffsets(requested.group_id, topics, stable, member_id, member_epoch)

    def _resolve_topics(self, topics: Iterable[Message]) -> Iterable[TopicPartitions]:
        for topic in topics:
            if self._context.version < _FIRST_BY_TOPIC_ID:
                yield TopicPartitions(topic.name, topic.partition_indexes)
                continue
            known = self._broker.image.topics_by_id.get(topic.topic_id)
            if known is None:
                self._rejected.append(
                    _reject_topic("", topic.partition_indexes, ErrorCode.unknown_topic_id, topic.topic_id)
                )
            else:
                yield TopicPartitions(known.name, topic.partition_indexes, known.id)

    def topics(self, response: FetchOffsetsResponse) -> tuple[FetchedTopic, ...]:
        if response.error is not ErrorCode.none:
            if self._context.version >= _FIRST_WITH_ERROR:
                return ()
            requested = self.command.topics or ()
            return tuple(_reject_topic(topic.topic, topic.partitions, response.error, None) for topic in requested)
        if self._context.version < _FIRST_BY_TOPIC_ID:
            return response.topics
        return (*self._with_ids(response.topics), *self._rejected)

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
    groups = broker.groups
    if context.version < _FIRST_WITH_SEVERAL_GROUPS:
        group_request = _GroupRequest(request, context, broker, stable=stable)
        return respond_with(
            groups.coordinator_of(request.group_id).submit(group_request.command),
            lambda response: _response(group_request, response, context),
        )
    if len(request.groups) > _PER_TURN_MAX:
        return _fetch_in_slices(request, context, broker)
    requests = [_GroupRequest(group, context, broker, stable=stable) for group in request.groups]
    all_deferred = [groups.coordinator_of(one.command.group_id).submit(one.command) for one in requests]
    return respond_with_all(all_deferred, lambda responses: _response_of_many(requests, responses, context))


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
        deferred.append(broker.groups.coordinator_of(group.group_id).submit(group_request.command))
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

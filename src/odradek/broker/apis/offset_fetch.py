"""OffsetFetch, versions 1 to 10: what groups have committed. Since version 8 of many groups at once, since version 10
with topics named by their ids."""

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
_FIRST_OF_MANY: Final = 8
_FIRST_BY_TOPIC_ID: Final = 10
_PER_TURN_MAX: Final = 200


class _Question:
    """Of one group: what its coordinator is asked, and what is answered here."""

    def __init__(self, asked: Message, context: RequestContext, broker: BrokerPort, *, stable: bool) -> None:
        self._context: Final = context
        self._broker: Final = broker
        self._rejected: Final[list[FetchedTopic]] = []
        topics = None if asked.topics is None else [*self._known(asked.topics)]
        member_id, member_epoch = getattr(asked, "member_id", None), getattr(asked, "member_epoch", NO_MEMBER_EPOCH)
        self.command: Final = FetchOffsets(asked.group_id, topics, stable, member_id, member_epoch)

    def _known(self, topics: Iterable[Message]) -> Iterable[TopicPartitions]:
        for topic in topics:
            if self._context.version < _FIRST_BY_TOPIC_ID:
                yield TopicPartitions(topic.name, topic.partition_indexes)
                continue
            known = self._broker.image.topics_by_id.get(topic.topic_id)
            if known is None:
                self._rejected.append(
                    _rejected("", topic.partition_indexes, ErrorCode.unknown_topic_id, topic.topic_id)
                )
            else:
                yield TopicPartitions(known.name, topic.partition_indexes, known.id)

    def topics(self, answer: FetchOffsetsResponse) -> tuple[FetchedTopic, ...]:
        if answer.error is not ErrorCode.none:
            if self._context.version >= _FIRST_WITH_ERROR:
                return ()
            asked = self.command.topics or ()
            return tuple(_rejected(topic.topic, topic.partitions, answer.error, None) for topic in asked)
        if self._context.version < _FIRST_BY_TOPIC_ID:
            return answer.topics
        return (*self._with_ids(answer.topics), *self._rejected)

    def _with_ids(self, topics: Iterable[FetchedTopic]) -> Iterable[FetchedTopic]:
        for topic in topics:
            known = self._broker.image.topics_by_name.get(topic.topic)
            topic_id = topic.topic_id or (None if known is None else known.id)
            # What belongs to a topic that is gone cannot be named any more.
            if topic_id is not None:
                yield topic._replace(topic_id=topic_id)


def handle(
    request: Message, context: RequestContext, broker: BrokerPort
) -> Message | DeferredResponse | Awaitable[Message]:
    stable = getattr(request, "require_stable", False)
    groups = broker.groups
    if context.version < _FIRST_OF_MANY:
        question = _Question(request, context, broker, stable=stable)
        return respond_with(groups.submit(question.command), lambda answer: _response(question, answer, context))
    if len(request.groups) > _PER_TURN_MAX:
        return _fetch_in_slices(request, context, broker)
    questions = [_Question(group, context, broker, stable=stable) for group in request.groups]
    deferred = [groups.submit(question.command) for question in questions]
    return respond_with_all(deferred, lambda responses: _response_of_many(questions, responses, context))


def _response(question: _Question, answer: FetchOffsetsResponse, context: RequestContext) -> Message:
    return context.new(
        "OffsetFetchResponse",
        throttle_time=NOT_THROTTLED,
        topics=tuple(
            context.new(
                "OffsetFetchResponseTopic",
                name=topic.topic,
                partitions=_partitions("OffsetFetchResponsePartition", topic, context),
            )
            for topic in question.topics(answer)
        ),
        error_code=answer.error,
    )


async def _fetch_in_slices(request: Message, context: RequestContext, broker: BrokerPort) -> Message:
    """Thousands of groups: other connections have their turn between them. All wait at once, for what they wait for."""
    questions: list[_Question] = []
    deferred: list[DeferredResponse] = []
    for number, group in enumerate(request.groups, 1):
        question = _Question(group, context, broker, stable=request.require_stable)
        questions.append(question)
        deferred.append(broker.groups.submit(question.command))
        if number % _PER_TURN_MAX == 0:
            await asyncio.sleep(0)
    groups: list[Message] = []
    for number, question in enumerate(questions, 1):
        groups.append(_group(question, await deferred[number - 1].wait(), context))
        if number % _PER_TURN_MAX == 0:
            await asyncio.sleep(0)
    return context.new("OffsetFetchResponse", throttle_time=NOT_THROTTLED, groups=tuple(groups))


def _response_of_many(
    questions: Sequence[_Question], answers: Sequence[FetchOffsetsResponse], context: RequestContext
) -> Message:
    groups = tuple(_group(question, answer, context) for question, answer in zip(questions, answers, strict=True))
    return context.new("OffsetFetchResponse", throttle_time=NOT_THROTTLED, groups=groups)


def _group(question: _Question, answer: FetchOffsetsResponse, context: RequestContext) -> Message:
    return context.new(
        "OffsetFetchResponseGroup",
        group_id=answer.group_id,
        topics=tuple(
            context.new(
                "OffsetFetchResponseTopics",
                name=topic.topic,
                topic_id=topic.topic_id,
                partitions=_partitions("OffsetFetchResponsePartitions", topic, context),
            )
            for topic in question.topics(answer)
        ),
        error_code=answer.error,
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


def _rejected(topic: str, partitions: Iterable[int], error: ErrorCode, topic_id: object) -> FetchedTopic:
    return FetchedTopic(
        topic,
        tuple(FetchedPartition(index, NO_OFFSET, NO_LEADER_EPOCH, "", error) for index in partitions),
        topic_id,  # type: ignore[arg-type]
    )

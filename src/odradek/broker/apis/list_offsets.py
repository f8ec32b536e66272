"""ListOffsets, versions 1 to 11: earliest, latest, by time, the greatest time, and what tiered storage would add.

Nothing is tiered, so that local and remote ones are answered as Kafka does for topics without remote storage.
Searching by time may read from disk and happens in a thread.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import timedelta
from typing import Final, NamedTuple, cast

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_EPOCH
from odradek.broker.apis.hosted_partition import find_partition
from odradek.broker.ports import BrokerPort
from odradek.server.context import RequestContext
from odradek.storage.log.segment import TimestampedOffset
from odradek.storage.partition.partition import Partition
from odradek.wire.schemas import Message

_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_EARLIEST_PENDING_UPLOAD: Final = -6
_FIRST_VERSION_WITH: Final = {
    _LATEST: 1,
    _EARLIEST: 1,
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
_FIRST_WITH_OFFSET_NOT_AVAILABLE: Final = 5

_CONSUMER: Final = -1
_DEBUGGER: Final = -2
_READ_UNCOMMITTED: Final = 0
_READ_COMMITTED: Final = 1

_UNKNOWN: Final = -1
# Partitions that are looked up before others have their turn.
_IN_ONE_GO_MAX: Final = 1000

_Key = tuple[str, int]


class _Question(NamedTuple):
    topic: str
    partition: int
    leader_epoch: int
    timestamp: int


class _Answer(NamedTuple):
    error: ErrorCode = ErrorCode.none
    timestamp: int = _UNKNOWN
    offset: int = _UNKNOWN
    leader_epoch: int = NO_EPOCH


class _Asker(NamedTuple):
    """Who asks decides how far the log may be seen."""

    replica_id: int
    isolation_level: int
    version: int


class _Search(NamedTuple):
    """A look into the files, and the offset from which on nothing may be told."""

    partition: Partition
    log_dir: str
    look: Callable[[], TimestampedOffset | None]
    end_offset: int


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | Awaitable[Message]:
    isolation_level = getattr(request, "isolation_level", _READ_UNCOMMITTED)
    asker = _Asker(request.replica_id, isolation_level, context.version)
    questions = [
        _Question(topic.name, one.partition_index, getattr(one, "current_leader_epoch", NO_EPOCH), one.timestamp)
        for topic in request.topics
        for one in topic.partitions
    ]
    if isolation_level not in (_READ_UNCOMMITTED, _READ_COMMITTED):
        return _response({_key(one): _Answer(ErrorCode.unknown_server_error) for one in questions}, context)
    times_asked = Counter(map(_key, questions))
    repeated = {key for key, times in times_asked.items() if times > 1}
    if len(questions) > _IN_ONE_GO_MAX:
        return _look_up_in_slices(questions, repeated, asker, context, broker)
    outcomes = _look_up_all(questions, repeated, asker, broker)
    if all(isinstance(outcome, _Answer) for outcome in outcomes.values()):
        return _response(cast(dict[_Key, _Answer], outcomes), context)
    return _search_and_respond(outcomes, asker, context, broker)


def _look_up_all(
    questions: Sequence[_Question], repeated: Collection[_Key], asker: _Asker, broker: BrokerPort
) -> dict[_Key, _Answer | _Search]:
    outcomes: dict[_Key, _Answer | _Search] = {}
    for question in questions:
        key = _key(question)
        try:
            if key in repeated:
                raise KafkaError(ErrorCode.invalid_request)
            outcomes[key] = _look_up(question, asker, broker)
        except KafkaError as error:
            outcomes[key] = _Answer(error.code)
    return outcomes


async def _look_up_in_slices(
    questions: Sequence[_Question],
    repeated: Collection[_Key],
    asker: _Asker,
    context: RequestContext,
    broker: BrokerPort,
) -> Message:
    """Thousands of partitions: other connections have their turn between them."""
    outcomes: dict[_Key, _Answer | _Search] = {}
    for start in range(0, len(questions), _IN_ONE_GO_MAX):
        outcomes |= _look_up_all(questions[start : start + _IN_ONE_GO_MAX], repeated, asker, broker)
        await asyncio.sleep(0)
    return await _search_and_respond(outcomes, asker, context, broker)


def _key(question: _Question) -> _Key:
    return question.topic, question.partition


def _look_up(question: _Question, asker: _Asker, broker: BrokerPort) -> _Answer | _Search:
    timestamp = question.timestamp
    if timestamp < 0 and asker.version < _FIRST_VERSION_WITH.get(timestamp, asker.version + 1):
        raise KafkaError(ErrorCode.unsupported_version)
    partition = find_partition(question.topic, question.partition, broker)
    try:
        partition.check_leader(question.leader_epoch)
    except KafkaError as error:
        if error.code is not ErrorCode.not_leader_or_follower or asker.replica_id != _DEBUGGER:
            raise
    log, log_dir = partition.log, partition.log_dir
    if timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        first = log.epochs.earliest
        epoch = NO_EPOCH if first is None or first.start_offset > log.log_start_offset else first.epoch
        return _Answer(offset=log.log_start_offset, leader_epoch=epoch)
    if timestamp in (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD):
        return _Answer()
    end_offset = log.log_end_offset
    if asker.replica_id == _CONSUMER:
        end_offset = partition.readable_end(committed_only=asker.isolation_level == _READ_COMMITTED)
    if timestamp == _LATEST:
        _check_watermark_known(partition, asker)
        return _Answer(offset=end_offset, leader_epoch=partition.leader_epoch)
    if timestamp == _MAX_TIMESTAMP:
        return _Search(partition, log_dir, log.offset_of_max_timestamp, end_offset)
    return _Search(partition, log_dir, lambda: log.offset_for_timestamp(timestamp), end_offset)


def _check_watermark_known(partition: Partition, asker: _Asker) -> None:
    """A new leader learns the high watermark from its followers. Until then it must not answer with an older one."""
    epochs = partition.log.epochs.entries
    if asker.replica_id != _CONSUMER or not epochs or epochs[-1].epoch != partition.leader_epoch:
        return
    if epochs[-1].start_offset > partition.high_watermark:
        understood = asker.version >= _FIRST_WITH_OFFSET_NOT_AVAILABLE
        raise KafkaError(ErrorCode.offset_not_available if understood else ErrorCode.leader_not_available)


async def _search_and_respond(
    outcomes: dict[_Key, _Answer | _Search], asker: _Asker, context: RequestContext, broker: BrokerPort
) -> Message:
    searches = {key: outcome for key, outcome in outcomes.items() if isinstance(outcome, _Search)}
    found = await broker.executor.run(lambda: {key: _run(search, asker) for key, search in searches.items()})
    answers: dict[_Key, _Answer] = {}
    for key, outcome in outcomes.items():
        if isinstance(outcome, _Answer):
            answers[key] = outcome
            continue
        result = found[key]
        if isinstance(result, OSError):
            broker.fail_log_dir(outcome.log_dir, result)
            result = _Answer(ErrorCode.kafka_storage_error)
        answers[key] = result
    return _response(answers, context)


def _run(search: _Search, asker: _Asker) -> _Answer | OSError:
    try:
        found = search.look()
        if found is not None and found.offset < search.end_offset:
            return _Answer(timestamp=found.timestamp, offset=found.offset, leader_epoch=found.leader_epoch)
        _check_watermark_known(search.partition, asker)
        return _Answer()
    except KafkaError as error:
        return _Answer(error.code)
    except OSError as error:
        return error


def _response(answers: dict[_Key, _Answer], context: RequestContext) -> Message:
    topics: dict[str, list[Message]] = {}
    for (topic, index), answer in answers.items():
        topics.setdefault(topic, []).append(
            context.new(
                "ListOffsetsPartitionResponse",
                partition_index=index,
                error_code=answer.error,
                timestamp=answer.timestamp,
                offset=answer.offset,
                leader_epoch=answer.leader_epoch,
            )
        )
    return context.new(
        "ListOffsetsResponse",
        throttle_time=timedelta(0),
        topics=tuple(
            context.new("ListOffsetsTopicResponse", name=topic, partitions=tuple(partitions))
            for topic, partitions in topics.items()
        ),
    )

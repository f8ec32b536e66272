"""ListOffsets, versions 1 to 11: earliest, latest, by timestamp, max timestamp, and the offsets of tiered storage.

Nothing is tiered: local and remote offsets are those that Kafka returns for topics without remote storage.
A search by timestamp may read from the disk and runs in a thread.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import chain
from typing import Final, NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_EPOCH
from odradek.base.message_walk import ANY_NUMBER
from odradek.base.ports import Pool
from odradek.base.slices import Slices
from odradek.broker.apis.authorization import AllowedTopics, allowed_topics
from odradek.broker.apis.hosted_partition import find_partition
from odradek.broker.apis.sliced_response import describe_topics
from odradek.broker.ports import BrokerPort
from odradek.core.security.resources import Operation
from odradek.server.context import RequestContext
from odradek.storage.log.segment import TimestampedOffset
from odradek.storage.partition.partition import Partition
from odradek.wire.schemas import Message

ELEMENTS_MAX: Final = ANY_NUMBER

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
# Partitions that are looked up before other connections are served.
_SLICE_PARTITIONS_MAX: Final = 500

_Key = tuple[str, int]


class _Query(NamedTuple):
    topic: str
    partition: int
    leader_epoch: int
    timestamp: int


class _Result(NamedTuple):
    error: ErrorCode = ErrorCode.none
    timestamp: int = _UNKNOWN
    offset: int = _UNKNOWN
    leader_epoch: int = NO_EPOCH


class _Requester(NamedTuple):
    """The requester decides how much of the log is visible."""

    replica_id: int
    isolation_level: int
    version: int


class _Search(NamedTuple):
    """A search in the files, and the end of the visible offsets."""

    partition: Partition
    log_dir: str
    run: Callable[[], TimestampedOffset | None]
    end_offset: int


class _LookedUp(NamedTuple):
    """What is known of each partition, in the order of the request."""

    results: dict[_Key, _Result]
    """With a placeholder for each search."""
    searches: dict[_Key, _Search]
    denied: list[Message]
    """The topics of the request that the client may not describe."""


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | Awaitable[Message]:
    isolation_level = getattr(request, "isolation_level", _READ_UNCOMMITTED)
    requester = _Requester(request.replica_id, isolation_level, context.version)
    allowed = allowed_topics(context.access, Operation.DESCRIBE)
    looked_up = broker.slice_turns.start(_look_up_all(request, allowed, requester, broker))
    if not isinstance(looked_up, _LookedUp):
        return _search_and_respond(looked_up, requester, context, broker)
    if looked_up.searches:
        return _search_and_respond(_as_awaitable(looked_up), requester, context, broker)
    return broker.slice_turns.start(_response(looked_up, context))


async def _as_awaitable(looked_up: _LookedUp) -> _LookedUp:
    return looked_up


def _look_up_all(
    request: Message, allowed: AllowedTopics | None, requester: _Requester, broker: BrokerPort
) -> Slices[_LookedUp]:
    queries: list[_Query] = []
    counts: Counter[_Key] = Counter()
    looked_up = _LookedUp({}, {}, [])
    for topic in request.topics:
        if allowed is not None and topic.name not in allowed:
            looked_up.denied.append(topic)
            continue
        for one in topic.partitions:
            leader_epoch = getattr(one, "current_leader_epoch", NO_EPOCH)
            queries.append(_Query(topic.name, one.partition_index, leader_epoch, one.timestamp))
            counts[topic.name, one.partition_index] += 1
            if len(queries) % _SLICE_PARTITIONS_MAX == 0:
                yield
    is_valid = requester.isolation_level in (_READ_UNCOMMITTED, _READ_COMMITTED)
    for number, query in enumerate(queries, 1):
        key = _key(query)
        try:
            if not is_valid:
                raise KafkaError(ErrorCode.unknown_server_error)
            if counts[key] > 1:
                raise KafkaError(ErrorCode.invalid_request)
            found = _look_up(query, requester, broker)
        except KafkaError as error:
            found = _Result(error.code)
        if isinstance(found, _Search):
            looked_up.searches[key] = found
            found = _Result()
        looked_up.results[key] = found
        if number % _SLICE_PARTITIONS_MAX == 0:
            yield
    return looked_up


def _key(query: _Query) -> _Key:
    return query.topic, query.partition


def _look_up(query: _Query, requester: _Requester, broker: BrokerPort) -> _Result | _Search:
    timestamp = query.timestamp
    if timestamp < 0 and requester.version < _FIRST_VERSION_WITH.get(timestamp, requester.version + 1):
        raise KafkaError(ErrorCode.unsupported_version)
    partition = find_partition(query.topic, query.partition, broker)
    try:
        partition.check_leader(query.leader_epoch)
    except KafkaError as error:
        if error.code is not ErrorCode.not_leader_or_follower or requester.replica_id != _DEBUGGER:
            raise
    log, log_dir = partition.log, partition.log_dir
    if timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        first = log.epochs.earliest
        epoch = NO_EPOCH if first is None or first.start_offset > log.log_start_offset else first.epoch
        return _Result(offset=log.log_start_offset, leader_epoch=epoch)
    if timestamp in (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD):
        return _Result()
    end_offset = log.log_end_offset
    if requester.replica_id == _CONSUMER:
        end_offset = partition.readable_end(committed_only=requester.isolation_level == _READ_COMMITTED)
    if timestamp == _LATEST:
        _check_watermark_known(partition, requester)
        return _Result(offset=end_offset, leader_epoch=partition.leader_epoch)
    if timestamp == _MAX_TIMESTAMP:
        return _Search(partition, log_dir, log.offset_of_max_timestamp, end_offset)
    return _Search(partition, log_dir, lambda: log.offset_for_timestamp(timestamp), end_offset)


def _check_watermark_known(partition: Partition, requester: _Requester) -> None:
    """A new leader learns the high watermark from its followers. Until then it must not return a lower one."""
    epochs = partition.log.epochs.entries
    if requester.replica_id != _CONSUMER or not epochs or epochs[-1].epoch != partition.leader_epoch:
        return
    if epochs[-1].start_offset > partition.high_watermark:
        understood = requester.version >= _FIRST_WITH_OFFSET_NOT_AVAILABLE
        raise KafkaError(ErrorCode.offset_not_available if understood else ErrorCode.leader_not_available)


async def _search_and_respond(
    looking_up: Awaitable[_LookedUp], requester: _Requester, context: RequestContext, broker: BrokerPort
) -> Message:
    looked_up = await looking_up
    by_dir: dict[str, dict[_Key, _Search]] = {}
    for key, search in looked_up.searches.items():
        by_dir.setdefault(search.log_dir, {})[key] = search
    for found in await asyncio.gather(*(_search_in(*one, requester, broker) for one in by_dir.items())):
        looked_up.results.update(found)
    return await broker.slice_turns.run(_response(looked_up, context))


async def _search_in(
    log_dir: str, searches: dict[_Key, _Search], requester: _Requester, broker: BrokerPort
) -> dict[_Key, _Result]:
    try:
        found = await broker.threads_of(log_dir).run(
            lambda: {key: _run(search, requester) for key, search in searches.items()}, pool=Pool.READ
        )
    except KafkaError as error:
        return dict.fromkeys(searches, _Result(error.code))
    except OSError as error:
        found = dict.fromkeys(searches, error)
    results: dict[_Key, _Result] = {}
    for key, result in found.items():
        if isinstance(result, OSError):
            broker.fail_log_dir(log_dir, result)
            result = _Result(ErrorCode.kafka_storage_error)
        results[key] = result
    return results


def _run(search: _Search, requester: _Requester) -> _Result | OSError:
    try:
        found = search.run()
        if found is not None and found.offset < search.end_offset:
            return _Result(timestamp=found.timestamp, offset=found.offset, leader_epoch=found.leader_epoch)
        _check_watermark_known(search.partition, requester)
        return _Result()
    except KafkaError as error:
        return _Result(error.code)
    except OSError as error:
        return error


def _response(looked_up: _LookedUp, context: RequestContext) -> Slices[Message]:
    by_topic: dict[str, list[tuple[int, _Result]]] = {}
    for number, ((topic, index), result) in enumerate(looked_up.results.items(), 1):
        by_topic.setdefault(topic, []).append((index, result))
        if number % _SLICE_PARTITIONS_MAX == 0:
            yield
    error = _Result(ErrorCode.topic_authorization_failed)
    denied = ((topic.name, [(one.partition_index, error) for one in topic.partitions]) for topic in looked_up.denied)
    topics = yield from describe_topics(
        chain(by_topic.items(), denied),
        lambda _, one: _partition(one[0], one[1], context),
        lambda topic, partitions: context.new("ListOffsetsTopicResponse", name=topic, partitions=partitions),
    )
    return context.new("ListOffsetsResponse", throttle_time=timedelta(0), topics=topics)


def _partition(index: int, result: _Result, context: RequestContext) -> Message:
    return context.new(
        "ListOffsetsPartitionResponse",
        partition_index=index,
        error_code=result.error,
        timestamp=result.timestamp,
        offset=result.offset,
        leader_epoch=result.leader_epoch,
    )

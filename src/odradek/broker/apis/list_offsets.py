"""ListOffsets, versions 1 to 11: earliest, latest, by timestamp, max timestamp, and the offsets of tiered storage.

Nothing is tiered: local and remote offsets are those that Kafka returns for topics without remote storage.
A search by timestamp may read from the disk and runs in a thread.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import timedelta
from typing import Final, NamedTuple, cast

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_EPOCH
from odradek.base.ports import Pool
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
# Partitions that are looked up before other connections are served.
_SLICE_PARTITIONS_MAX: Final = 1000

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


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | Awaitable[Message]:
    isolation_level = getattr(request, "isolation_level", _READ_UNCOMMITTED)
    requester = _Requester(request.replica_id, isolation_level, context.version)
    queries = [
        _Query(topic.name, one.partition_index, getattr(one, "current_leader_epoch", NO_EPOCH), one.timestamp)
        for topic in request.topics
        for one in topic.partitions
    ]
    if isolation_level not in (_READ_UNCOMMITTED, _READ_COMMITTED):
        return _response({_key(one): _Result(ErrorCode.unknown_server_error) for one in queries}, context)
    counts = Counter(map(_key, queries))
    repeated = {key for key, count in counts.items() if count > 1}
    if len(queries) > _SLICE_PARTITIONS_MAX:
        return _look_up_in_slices(queries, repeated, requester, context, broker)
    outcomes = _look_up_all(queries, repeated, requester, broker)
    if all(isinstance(outcome, _Result) for outcome in outcomes.values()):
        return _response(cast(dict[_Key, _Result], outcomes), context)
    return _search_and_respond(outcomes, requester, context, broker)


def _look_up_all(
    queries: Sequence[_Query], repeated: Collection[_Key], requester: _Requester, broker: BrokerPort
) -> dict[_Key, _Result | _Search]:
    outcomes: dict[_Key, _Result | _Search] = {}
    for query in queries:
        key = _key(query)
        try:
            if key in repeated:
                raise KafkaError(ErrorCode.invalid_request)
            outcomes[key] = _look_up(query, requester, broker)
        except KafkaError as error:
            outcomes[key] = _Result(error.code)
    return outcomes


async def _look_up_in_slices(
    queries: Sequence[_Query],
    repeated: Collection[_Key],
    requester: _Requester,
    context: RequestContext,
    broker: BrokerPort,
) -> Message:
    """Thousands of partitions: serves other connections in between."""
    outcomes: dict[_Key, _Result | _Search] = {}
    for start in range(0, len(queries), _SLICE_PARTITIONS_MAX):
        outcomes |= _look_up_all(queries[start : start + _SLICE_PARTITIONS_MAX], repeated, requester, broker)
        await asyncio.sleep(0)
    return await _search_and_respond(outcomes, requester, context, broker)


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
    outcomes: dict[_Key, _Result | _Search], requester: _Requester, context: RequestContext, broker: BrokerPort
) -> Message:
    searches = {key: outcome for key, outcome in outcomes.items() if isinstance(outcome, _Search)}
    found = await broker.executor.run(
        lambda: {key: _run(search, requester) for key, search in searches.items()}, pool=Pool.READ
    )
    results: dict[_Key, _Result] = {}
    for key, outcome in outcomes.items():
        if isinstance(outcome, _Result):
            results[key] = outcome
            continue
        result = found[key]
        if isinstance(result, OSError):
            broker.fail_log_dir(outcome.log_dir, result)
            result = _Result(ErrorCode.kafka_storage_error)
        results[key] = result
    return _response(results, context)


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


def _response(results: dict[_Key, _Result], context: RequestContext) -> Message:
    topics: dict[str, list[Message]] = {}
    for (topic, index), result in results.items():
        topics.setdefault(topic, []).append(
            context.new(
                "ListOffsetsPartitionResponse",
                partition_index=index,
                error_code=result.error,
                timestamp=result.timestamp,
                offset=result.offset,
                leader_epoch=result.leader_epoch,
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

"""DescribeLogDirs, versions 1 to 5: the logs in each log dir, and the free space of its filesystem."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.message_walk import ANY_NUMBER
from odradek.base.ports import DiskUsage, Pool
from odradek.base.slices import Slices
from odradek.broker.apis.sliced_response import SLICE_ENTRIES, describe_topics
from odradek.broker.ports import BrokerPort
from odradek.core.security.resources import Operation
from odradek.server.context import RequestContext
from odradek.server.denials import allows_cluster
from odradek.storage.log.log_dir import LogDir
from odradek.storage.log.partition_log import PartitionLog
from odradek.wire.schemas import Message

ELEMENTS_MAX: Final = ANY_NUMBER

_UNKNOWN = -1
_UNMEASURED = DiskUsage(_UNKNOWN, _UNKNOWN)

_Usages = Mapping[str, DiskUsage | None]


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Awaitable[Message]:
    return _measure_and_describe(request, context, broker)


async def _measure_and_describe(request: Message, context: RequestContext, broker: BrokerPort) -> Message:
    if not allows_cluster(context.access, Operation.DESCRIBE):
        # Versions before 3 have no field for the error.
        return _response(context, ErrorCode.cluster_authorization_failed, ())
    # In a thread: a hanging filesystem must not block the event loop.
    directories = list(broker.log_dirs.online)
    measured = await asyncio.gather(*(_usage(directory, broker) for directory in directories))
    usages = dict(zip(directories, measured, strict=True))
    return await broker.slice_turns.run(_respond(request, usages, context, broker))


def _respond(request: Message, usages: _Usages, context: RequestContext, broker: BrokerPort) -> Slices[Message]:
    is_requested: Callable[[TopicPartition], bool] = lambda _: True  # noqa: E731
    if request.topics is not None:
        requested: set[TopicPartition] = set()
        is_requested = requested.__contains__
        for topic in request.topics:
            for start in range(0, len(topic.partitions), SLICE_ENTRIES):
                requested.update(
                    TopicPartition(topic.topic, one) for one in topic.partitions[start : start + SLICE_ENTRIES]
                )
                if len(requested) % SLICE_ENTRIES == 0:
                    yield
    results: list[Message] = []
    for directory in dict.fromkeys(broker.config.log_dirs):
        results.append((yield from _describe(directory, usages, is_requested, context, broker)))
    return _response(context, ErrorCode.none, tuple(results))


def _response(context: RequestContext, error: ErrorCode, results: tuple[Message, ...]) -> Message:
    return context.new("DescribeLogDirsResponse", throttle_time=timedelta(0), error_code=error, results=results)


async def _usage(directory: str, broker: BrokerPort) -> DiskUsage | None:
    try:
        return await broker.threads_of(directory).run(partial(broker.log_dirs.usage, directory), pool=Pool.READ)
    except (KafkaError, OSError):
        return None


def _describe(
    directory: str,
    usages: _Usages,
    is_requested: Callable[[TopicPartition], bool],
    context: RequestContext,
    broker: BrokerPort,
) -> Slices[Message]:
    log_dir = broker.log_dirs.online.get(directory)
    if log_dir is None:
        return _result(context, directory, ErrorCode.kafka_storage_error)
    usage = usages.get(directory)
    if usage is None:
        return _result(context, directory, ErrorCode.unknown_server_error)
    found: dict[str, list[tuple[PartitionLog, bool]]] = {}
    for logs in (log_dir.logs, log_dir.future_logs):
        # Copied first: threads create and delete logs.
        for number, (name, log) in enumerate(list(logs.items()), 1):
            if is_requested(name):
                is_future = logs is log_dir.future_logs or _is_replacing(log, directory, broker)
                if is_future or not _is_replaced(log, broker):
                    found.setdefault(name.topic, []).append((log, is_future))
            if number % SLICE_ENTRIES == 0:
                yield
    topics = yield from describe_topics(
        found.items(),
        lambda _, one: _partition(one[0], one[1], context, broker),
        lambda topic, partitions: context.new("DescribeLogDirsTopic", name=topic, partitions=partitions),
    )
    return _result(
        context,
        directory,
        ErrorCode.none,
        topics=topics,
        usage=usage,
        is_cordoned=_is_cordoned(log_dir, broker),
    )


def _is_replacing(log: PartitionLog, directory: str, broker: BrokerPort) -> bool:
    """Whether a log dir move has renamed its future log already, but the partition does not use it yet."""
    return _is_replaced(log, broker) and broker.log_dir_moves.destination(log.topic_partition) == directory


def _is_replaced(log: PartitionLog, broker: BrokerPort) -> bool:
    """Whether the partition uses another log: at the end of a log dir move, two dirs have one for a moment."""
    partition = broker.partition(*log.topic_partition)
    return partition is not None and partition.log is not log


def _partition(log: PartitionLog, is_future: bool, context: RequestContext, broker: BrokerPort) -> Message:
    name = log.topic_partition
    return context.new(
        "DescribeLogDirsPartition",
        partition_index=name.partition,
        partition_size=log.size_bytes,
        offset_lag=_lag(log, is_future, broker),
        is_future_key=is_future,
    )


def _lag(log: PartitionLog, is_future: bool, broker: BrokerPort) -> int:
    """A future replica lags behind the log end offset of its source, a replica behind the high watermark."""
    partition = broker.partition(*log.topic_partition)
    if partition is None:
        return _UNKNOWN
    if is_future:
        return partition.log.log_end_offset - log.log_end_offset
    return max(partition.high_watermark - log.log_end_offset, 0)


def _is_cordoned(log_dir: LogDir, broker: BrokerPort) -> bool:
    registration = broker.image.brokers.get(broker.node_id)
    return registration is not None and log_dir.directory_id in registration.cordoned_directories


def _result(
    context: RequestContext,
    directory: str,
    error: ErrorCode,
    *,
    topics: tuple[Message, ...] = (),
    usage: DiskUsage = _UNMEASURED,
    is_cordoned: bool = False,
) -> Message:
    return context.new(
        "DescribeLogDirsResult",
        error_code=error,
        log_dir=directory,
        topics=topics,
        total_bytes=usage.total_bytes,
        usable_bytes=usage.usable_bytes,
        is_cordoned=is_cordoned,
    )

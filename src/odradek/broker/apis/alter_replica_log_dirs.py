"""AlterReplicaLogDirs, versions 1 and 2: moves replicas between the log dirs of this broker.

The response is sent when a move has started; DescribeLogDirs shows its progress.
"""

from collections.abc import Awaitable
from datetime import timedelta
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.broker.apis.hosted_partition import find_partition
from odradek.broker.ports import BrokerPort
from odradek.core.security.resources import Operation
from odradek.server.context import RequestContext
from odradek.server.denials import allows_cluster
from odradek.wire.schemas import Message

# `<topic>-<n>.<32 hex digits>-future` has to be a valid file name.
_MARK_LENGTH: Final = len(".") + 32 + len("-future")
_FILE_NAME_LENGTH_MAX: Final = 255


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | Awaitable[Message]:
    if not allows_cluster(context.access, Operation.ALTER):
        return _deny(request, context)
    # The last dir of a duplicate partition applies.
    wanted = {
        TopicPartition(topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    return _alter(wanted, context, broker)


def _deny(request: Message, context: RequestContext) -> Message:
    results = tuple(
        context.new(
            "AlterReplicaLogDirTopicResult",
            topic_name=topic.name,
            partitions=tuple(
                context.new(
                    "AlterReplicaLogDirPartitionResult",
                    partition_index=index,
                    error_code=ErrorCode.cluster_authorization_failed,
                )
                for index in topic.partitions
            ),
        )
        for directory in request.dirs
        for topic in directory.topics
    )
    return context.new("AlterReplicaLogDirsResponse", throttle_time=timedelta(0), results=results)


async def _alter(wanted: dict[TopicPartition, str], context: RequestContext, broker: BrokerPort) -> Message:
    topics: dict[str, list[Message]] = {}
    for name, directory in wanted.items():
        result = context.new(
            "AlterReplicaLogDirPartitionResult",
            partition_index=name.partition,
            error_code=await _move(name, directory, broker),
        )
        topics.setdefault(name.topic, []).append(result)
    results = tuple(
        context.new("AlterReplicaLogDirTopicResult", topic_name=topic, partitions=tuple(partitions))
        for topic, partitions in topics.items()
    )
    return context.new("AlterReplicaLogDirsResponse", throttle_time=timedelta(0), results=results)


async def _move(name: TopicPartition, directory: str, broker: BrokerPort) -> ErrorCode:
    try:
        _check(name, directory, broker)
        while (destination := broker.log_dir_moves.destination(name)) not in (None, directory):
            # A concurrent request may have started another move meanwhile.
            await broker.log_dir_moves.cancel(name)
        partition = find_partition(*name, broker)
        if destination is None and partition.log_dir != directory:
            if broker.log_dirs.offline:
                # An offline dir may already have a copy of the partition.
                raise KafkaError(ErrorCode.kafka_storage_error)
            await broker.log_dir_moves.start(partition, directory)
    except KafkaError as error:
        is_elsewhere = error.code is ErrorCode.not_leader_or_follower
        return ErrorCode.replica_not_available if is_elsewhere else error.code
    except OSError:
        return ErrorCode.kafka_storage_error
    return ErrorCode.none


def _check(name: TopicPartition, directory: str, broker: BrokerPort) -> None:
    if len(str(name)) + _MARK_LENGTH > _FILE_NAME_LENGTH_MAX:
        raise KafkaError(ErrorCode.invalid_topic_exception)
    if directory not in broker.config.log_dirs:
        raise KafkaError(ErrorCode.log_dir_not_found)
    log_dir = broker.log_dirs.online.get(directory)
    if log_dir is None:
        raise KafkaError(ErrorCode.kafka_storage_error)
    registration = broker.image.brokers.get(broker.node_id)
    if registration is not None and log_dir.directory_id in registration.cordoned_directories:
        raise KafkaError(ErrorCode.invalid_replica_assignment)

"""WriteTxnMarkers, versions 1 and 2: writes the markers with which a coordinator ends transactions.

Each partition has its own error, after its marker is committed. The group coordinator writes the markers to
`__consumer_offsets`, because it has to replay them. Since version 2 a marker has a transaction version.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition, partitions_by_topic
from odradek.broker.ports import BrokerPort
from odradek.core.metadata.topic_names import CONSUMER_OFFSETS
from odradek.core.transactions.commands import Markers
from odradek.records.batch import parse_batches
from odradek.records.control import EndTransactionMarker, build_end_transaction
from odradek.server.context import RequestContext
from odradek.storage.log.producer_state import Origin
from odradek.storage.partition.partition import Partition
from odradek.wire.schemas import Message

Errors = Mapping[TopicPartition, ErrorCode]

_PER_TURN_MAX: Final = 500

# Errors of a group coordinator, which a transaction coordinator expects as an error of the partition.
_NOT_READY = frozenset(
    (
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
    )
)


async def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message:
    markers = [_read(marker) for marker in request.markers]
    errors = await asyncio.gather(*(write_markers(one, broker) for one in markers))
    by_producer: dict[int, dict[TopicPartition, ErrorCode]] = {}
    for one, of_one in zip(markers, errors, strict=True):
        if of_one:
            by_producer.setdefault(one.producer_id, {}).update(of_one)
    return context.new(
        "WriteTxnMarkersResponse",
        markers=tuple(
            context.new("WritableTxnMarkerResult", producer_id=producer_id, topics=_topics(of_producer, context))
            for producer_id, of_producer in by_producer.items()
        ),
    )


async def write_markers(markers: Markers, broker: BrokerPort) -> Errors:
    """Writes to all partitions of a transaction; returns when each marker is committed or rejected."""
    partitions = sorted(markers.partitions)
    if len(partitions) <= _PER_TURN_MAX:
        codes = await asyncio.gather(*(_write(partition, markers, broker) for partition in partitions))
        return dict(zip(partitions, codes, strict=True))
    # For thousands of partitions: it yields to other connections.
    writes: dict[TopicPartition, asyncio.Task[ErrorCode]] = {}
    async with asyncio.TaskGroup() as group:
        for number, partition in enumerate(partitions, 1):
            writes[partition] = group.create_task(_write(partition, markers, broker))
            if number % _PER_TURN_MAX == 0:
                await asyncio.sleep(0)
    return {partition: write.result() for partition, write in writes.items()}


async def _write(name: TopicPartition, markers: Markers, broker: BrokerPort) -> ErrorCode:
    marker = EndTransactionMarker(committed=markers.commits, coordinator_epoch=markers.coordinator_epoch)
    partition: Partition | None = None
    try:
        async with asyncio.timeout(broker.config.effective_number("request.timeout.ms") / 1000):
            partition = broker.partition(*name)
            if partition is None or partition.unavailable is not None:
                # The coordinator retries with the current leader.
                return ErrorCode.unknown_topic_or_partition
            if name.topic == CONSUMER_OFFSETS:
                await broker.groups.end_transaction(
                    name.partition, markers.producer_id, markers.producer_epoch, marker, markers.transaction_version
                )
                return ErrorCode.none
            return await _append(partition, marker, markers, broker)
    except TimeoutError:
        return ErrorCode.request_timed_out
    except KafkaError as error:
        return ErrorCode.not_leader_or_follower if error.code in _NOT_READY else error.code
    except OSError as error:
        if partition is not None:
            broker.fail_log_dir(partition.log_dir, error)
        return ErrorCode.kafka_storage_error


async def _append(
    partition: Partition, marker: EndTransactionMarker, markers: Markers, broker: BrokerPort
) -> ErrorCode:
    partition.check_leader()
    epoch, replication = partition.leader_epoch, partition.leader_state
    if replication is not None and replication.under_min_isr:
        raise KafkaError(ErrorCode.not_enough_replicas)
    now_ms = broker.clock.wall_ms()
    data = bytearray(
        build_end_transaction(
            marker, producer_id=markers.producer_id, producer_epoch=markers.producer_epoch, timestamp=now_ms
        )
    )
    batches = parse_batches(data)
    view, version = memoryview(data), markers.transaction_version
    if partition.can_append_now:
        appended = partition.append(view, batches, now_ms, Origin.COORDINATOR, version)
    else:
        appended = await partition.append_exclusively(view, batches, Origin.COORDINATOR, version)
    end_offset = appended.last_offset + 1
    if partition.needs_sync():
        await partition.wait_for_sync(end_offset)
    return await partition.wait_for_commit(end_offset, epoch)


def _read(marker: Message) -> Markers:
    return Markers(
        "",
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        marker.transaction_result,
        getattr(marker, "transaction_version", 0),
        frozenset(TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes),
    )


def _topics(errors: Errors, context: RequestContext) -> tuple[Message, ...]:
    return tuple(
        context.new(
            "WritableTxnMarkerTopicResult",
            name=topic,
            partitions=tuple(
                context.new(
                    "WritableTxnMarkerPartitionResult",
                    partition_index=index,
                    error_code=errors[TopicPartition(topic, index)],
                )
                for index in indexes
            ),
        )
        for topic, indexes in partitions_by_topic(errors).items()
    )

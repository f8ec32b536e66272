"""WriteTxnMarkers, versions 1 and 2: writes the markers with which a coordinator ends transactions.

Each partition has its own error, after its marker is committed. The group coordinator writes the markers to
`__consumer_offsets`, because it has to replay them. Since version 2 a marker has a transaction version.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

from odradek.base.background import Fault, start_task
from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition, partitions_by_topic
from odradek.broker.ports import BrokerPort
from odradek.core.metadata.topic_names import CONSUMER_OFFSETS
from odradek.core.security.access import Access
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType
from odradek.core.transactions.commands import Markers
from odradek.records.batch import BatchHeader, parse_batches
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
    if context.access.is_restricted and not _may_write(context.access):
        error = ErrorCode.cluster_authorization_failed
        return _response({one.producer_id: dict.fromkeys(one.partitions, error) for one in markers}, context)
    writes = [write_markers(one, broker) for one in markers]
    by_producer: dict[int, dict[TopicPartition, ErrorCode]] = {}
    for one, write in zip(markers, writes, strict=True):
        if of_one := await write.wait():
            by_producer.setdefault(one.producer_id, {}).update(of_one)
    return _response(by_producer, context)


def _may_write(access: Access) -> bool:
    """Allowed to administrators and to brokers."""
    return access.allows(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME, logs_denial=False) or access.allows(
        Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
    )


def _response(by_producer: Mapping[int, Errors], context: RequestContext) -> Message:
    return context.new(
        "WriteTxnMarkersResponse",
        markers=tuple(
            context.new("WritableTxnMarkerResult", producer_id=producer_id, topics=_topics(of_producer, context))
            for producer_id, of_producer in by_producer.items()
        ),
    )


def write_markers(markers: Markers, broker: BrokerPort) -> DeferredResponse:
    """Writes to all partitions of a transaction. The result is `Errors`, when each marker is committed or rejected."""
    partitions = sorted(markers.partitions)
    if len(partitions) > _PER_TURN_MAX:
        return _in_task(_write_in_turns(partitions, markers, broker))
    written = DeferredResponse.from_all([_write(partition, markers, broker) for partition in partitions])
    written.convert(lambda codes: dict(zip(partitions, codes, strict=True)))
    return written


async def _write_in_turns(partitions: Sequence[TopicPartition], markers: Markers, broker: BrokerPort) -> Errors:
    """For thousands of partitions: it yields to other connections."""
    writes: dict[TopicPartition, DeferredResponse] = {}
    for number, partition in enumerate(partitions, 1):
        writes[partition] = _write(partition, markers, broker)
        if number % _PER_TURN_MAX == 0:
            await asyncio.sleep(0)
    return {partition: await write.wait() for partition, write in writes.items()}


def _write(name: TopicPartition, markers: Markers, broker: BrokerPort) -> DeferredResponse:
    """The result is the error code of one partition."""
    partition = broker.partition(*name)
    if partition is None or partition.unavailable is not None:
        # The coordinator retries with the current leader.
        return DeferredResponse.from_result(ErrorCode.unknown_topic_or_partition)
    marker = EndTransactionMarker(committed=markers.commits, coordinator_epoch=markers.coordinator_epoch)
    if name.topic == CONSUMER_OFFSETS:
        written = broker.groups.end_transaction(
            name.partition, markers.producer_id, markers.producer_epoch, marker, markers.transaction_version
        )
        written.convert(_translate)
    else:
        written = _append(partition, marker, markers, broker)
    return written if written.is_done else _LimitedWait(written, broker)


def _append(
    partition: Partition, marker: EndTransactionMarker, markers: Markers, broker: BrokerPort
) -> DeferredResponse:
    try:
        partition.check_leader()
        replication = partition.leader_state
        if replication is not None and replication.under_min_isr:
            raise KafkaError(ErrorCode.not_enough_replicas)
        now_ms = broker.clock.wall_ms()
        data = bytearray(
            build_end_transaction(
                marker, producer_id=markers.producer_id, producer_epoch=markers.producer_epoch, timestamp=now_ms
            )
        )
        view, batches, version = memoryview(data), parse_batches(data), markers.transaction_version
        if not partition.can_append_now(view, batches, now_ms):
            return _in_task(_append_exclusively(partition, view, batches, version, broker))
        epoch = partition.leader_epoch
        appended = partition.append(view, batches, now_ms, Origin.COORDINATOR, version, has_room=True)
    except (KafkaError, OSError) as error:
        return DeferredResponse.from_result(_error_code(partition, error, broker))
    end_offset = appended.last_offset + 1
    if partition.needs_sync():
        return _in_task(_wait_for_sync(partition, end_offset, epoch, broker))
    return partition.defer_until_committed(end_offset, epoch)


async def _append_exclusively(
    partition: Partition, data: memoryview, batches: list[BatchHeader], transaction_version: int, broker: BrokerPort
) -> ErrorCode:
    epoch = partition.leader_epoch
    try:
        appended = await partition.append_exclusively(data, batches, Origin.COORDINATOR, transaction_version)
    except (KafkaError, OSError) as error:
        return _error_code(partition, error, broker)
    return await _wait_for_sync(partition, appended.last_offset + 1, epoch, broker)


async def _wait_for_sync(partition: Partition, end_offset: int, epoch: int, broker: BrokerPort) -> ErrorCode:
    try:
        if partition.needs_sync():
            await partition.wait_for_sync(end_offset)
    except OSError as error:
        return _error_code(partition, error, broker)
    return await partition.wait_for_commit(end_offset, epoch)


def _error_code(partition: Partition, error: KafkaError | OSError, broker: BrokerPort) -> ErrorCode:
    if isinstance(error, KafkaError):
        return error.code
    broker.fail_log_dir(partition.log_dir, error)
    return ErrorCode.kafka_storage_error


def _translate(code: ErrorCode) -> ErrorCode:
    return ErrorCode.not_leader_or_follower if code in _NOT_READY else code


def _in_task(work: Coroutine[Any, Any, Any]) -> DeferredResponse:
    """For what the disk delays: completes with the result of `work`."""
    deferred = DeferredResponse()

    def on_end(task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and task.exception() is None:
            deferred.complete(task.result())

    start_task(
        "write of transaction markers", work, lambda what, error: deferred.fail(Fault(what, error))
    ).add_done_callback(on_end)
    return deferred


class _LimitedWait(DeferredResponse):
    """Waits for a marker to be committed, at most for `request.timeout.ms`."""

    def __init__(self, written: DeferredResponse, broker: BrokerPort) -> None:
        super().__init__()
        timeout_seconds = broker.config.effective_number("request.timeout.ms") / 1000
        self._timer: Final = asyncio.get_running_loop().call_later(
            timeout_seconds, self.complete, ErrorCode.request_timed_out
        )
        written.on_complete(self._on_written)

    def cancel(self) -> None:
        super().cancel()
        self._timer.cancel()

    def _on_written(self, written: DeferredResponse) -> None:
        self._timer.cancel()
        if written.error is None:
            self.complete(written.result)
        else:
            self.fail(written.error)


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

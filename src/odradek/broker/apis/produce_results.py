"""The result of one partition in a Produce response: the offsets, or the error."""

from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.broker.ports import BrokerPort
from odradek.instruments.traffic import Traffic
from odradek.records.batch import NO_TIMESTAMP, BatchHeader, CorruptBatch
from odradek.records.validate import InvalidRecords
from odradek.storage.log.partition_log import Appended
from odradek.storage.partition.partition import Partition
from odradek.wire.produce_codec import PartitionResult, RecordError

# Since this version producing to a partition adds it to the transaction.
FIRST_THAT_ADDS: Final = 12
COORDINATOR_UNAVAILABLE: Final = frozenset(
    (
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    )
)
# Errors of the log itself: the response then contains the log start offset.
REJECTED_BY_LOG: Final = frozenset(
    (
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_timestamp,
        ErrorCode.unknown_server_error,
    )
)

TOO_LARGE: Final = frozenset((ErrorCode.message_too_large, ErrorCode.record_list_too_large))
# Kafka counts only unexpected errors as failed produce requests, not these.
EXPECTED_ERRORS: Final = frozenset(
    (
        *TOO_LARGE,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
        ErrorCode.corrupt_message,
        ErrorCode.kafka_storage_error,
    )
)


class UnreadableBatch(CorruptBatch):
    """The bytes are not a batch; found before the partition was looked up."""


def appended_result(partition: Partition, appended: Appended, batch: BatchHeader) -> PartitionResult:
    append_time_ms = NO_TIMESTAMP
    if appended.duplicate:
        append_time_ms = appended.timestamp
    elif partition.log.config.log_append_time:
        append_time_ms = batch.max_timestamp
    return PartitionResult(
        partition.name.partition,
        ErrorCode.none,
        appended.first_offset,
        append_time_ms,
        partition.log.log_start_offset,
    )


def rejected_batch(
    partition: Partition, batch: BatchHeader, error: KafkaError | OSError, broker: BrokerPort
) -> PartitionResult:
    topic, index = partition.name
    _count_rejection(partition.traffic, batch, error)
    if isinstance(error, KafkaError):
        code = partition.on_rejected_batch(batch, error.code)
        if code is not error.code:
            return PartitionResult(index, code)
    return rejected_result(topic, index, error, broker)


def _count_rejection(traffic: Traffic, batch: BatchHeader, error: KafkaError | OSError) -> None:
    traffic.rejected_appends += 1
    if isinstance(error, KafkaError):
        if error.code in TOO_LARGE:
            traffic.bytes_rejected += batch.size
        elif error.code not in EXPECTED_ERRORS:
            traffic.failed_appends += 1


def rejected_result(topic: str, index: int, error: KafkaError | OSError, broker: BrokerPort) -> PartitionResult:
    partition = broker.partition(topic, index)
    if isinstance(error, OSError):
        if partition is not None:
            broker.fail_log_dir(partition.log_dir, error)
        return PartitionResult(index, ErrorCode.kafka_storage_error)
    details = [RecordError(*one) for one in error.records] if isinstance(error, InvalidRecords) else []
    # Like Kafka: a message only about single records or an unreadable batch; the log start only for errors of the log.
    has_message = bool(details) or isinstance(error, UnreadableBatch)
    by_log = isinstance(error, InvalidRecords) or error.code in REJECTED_BY_LOG
    return PartitionResult(
        index,
        error.code,
        log_start_offset=partition.log.log_start_offset if by_log and partition is not None else -1,
        record_errors=details,
        message=error.message if has_message else None,
    )


def unverified_batch(partition: Partition, batch: BatchHeader, error: ErrorCode, version: int) -> PartitionResult:
    """Returns the error that producers of this version understand."""
    message = None
    if error in COORDINATOR_UNAVAILABLE or (error is ErrorCode.concurrent_transactions and version < FIRST_THAT_ADDS):
        message = (
            f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name.upper()}"
        )
        error = ErrorCode.not_enough_replicas
    elif error is ErrorCode.invalid_txn_state:
        message = "Partition was not added to the transaction"
    return PartitionResult(partition.name.partition, partition.on_rejected_batch(batch, error), message=message)

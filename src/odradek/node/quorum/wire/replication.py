"""Fetch and FetchSnapshot of the metadata log.

A Fetch names the log by its topic id, so versions before 13 cannot ask for it: Kafka's controllers refuse them too.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import METADATA_TOPIC, METADATA_TOPIC_ID
from odradek.metadata.snapshot import SnapshotId
from odradek.protocol.schemas import Message, Schema
from odradek.raft.batch import OffsetAndEpoch
from odradek.raft.messages import (
    ANY_HIGH_WATERMARK,
    NOBODY,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from odradek.raft.voter_set import ReplicaKey

from .batches import read_batches
from .leader_naming import named, read_node_endpoints, unnamed, write_node_endpoints
from .parts import PARTITION, request_class
from .refusals import RefusedRequest, invalid

FIRST_WITH_TOPIC_ID: Final = 13
FIRST_WITH_LEADER_ADDRESS: Final = 17
NONE: Final = -1
_MILLISECOND: Final = timedelta(milliseconds=1)


# Records


def read_fetch_request(request: Message, schema: Schema) -> FetchRequest:
    topics = request.topics
    is_of_log = len(topics) == 1 and getattr(topics[0], "topic_id", None) == METADATA_TOPIC_ID
    if not is_of_log or len(topics[0].partitions) != 1 or topics[0].partitions[0].partition != PARTITION:
        raise invalid(schema)
    partition = topics[0].partitions[0]
    return FetchRequest(
        cluster_id=request.cluster_id,
        replica=ReplicaKey(_replica_id(request), getattr(partition, "replica_directory_id", None)),
        current_leader_epoch=partition.current_leader_epoch,
        fetch_offset=partition.fetch_offset,
        last_fetched_epoch=partition.last_fetched_epoch,
        high_watermark=getattr(partition, "high_watermark", ANY_HIGH_WATERMARK),
        max_bytes=request.max_bytes,
        max_wait_ms=request.max_wait // _MILLISECOND,
    )


def _replica_id(request: Message) -> int:
    """Where it stands has moved; Kafka looks at the old place first."""
    replica_id: int = getattr(request, "replica_id", NOBODY)
    state = getattr(request, "replica_state", None)
    return replica_id if state is None else state.replica_id


def write_fetch_request(schema: Schema, request: FetchRequest) -> Message:
    if schema.version < FIRST_WITH_TOPIC_ID:
        raise KafkaError(ErrorCode.unsupported_version, f"Fetch v{schema.version} has no topic ids")
    partition = request_class(schema, "FetchPartition")(
        partition=PARTITION,
        current_leader_epoch=request.current_leader_epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
        log_start_offset=NONE,
        partition_max_bytes=0,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    replica_state = (
        request_class(schema, "ReplicaState")(replica_id=request.replica.node_id, replica_epoch=NONE)
        if schema.knows("ReplicaState")
        else None
    )
    return schema.new(
        "FetchRequest",
        cluster_id=request.cluster_id,
        replica_id=request.replica.node_id,
        replica_state=replica_state,
        max_wait=timedelta(milliseconds=request.max_wait_ms),
        min_bytes=0,
        max_bytes=request.max_bytes,
        isolation_level=0,
        session_id=0,
        session_epoch=NONE,
        topics=(request_class(schema, "FetchTopic")(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
        forgotten_topics_data=(),
        rack_id="",
    )


def read_fetch_response(response: Message, listener_name: str) -> FetchResponse:
    """Raises CorruptBatch."""
    topics = response.responses
    is_of_log = len(topics) == 1 and topics[0].topic_id == METADATA_TOPIC_ID and len(topics[0].partitions) == 1
    if response.error_code is not ErrorCode.none or not is_of_log:
        return unnamed(FetchResponse, response.error_code)
    partition = topics[0].partitions[0]
    if partition.partition_index != PARTITION:
        return unnamed(FetchResponse, ErrorCode.none)
    leader, diverging, snapshot_id = partition.current_leader, partition.diverging_epoch, partition.snapshot_id
    endpoints = read_node_endpoints(response, leader.leader_id, listener_name)
    is_diverging = diverging.epoch >= 0
    return replace(
        named(FetchResponse, partition.error_code, leader, endpoints),
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        diverging_epoch=OffsetAndEpoch(diverging.end_offset, diverging.epoch) if is_diverging else None,
        snapshot_id=_read_snapshot_id(snapshot_id),
        batches=read_batches(partition.records or b""),
    )


def write_fetch_response(schema: Schema, response: FetchResponse, listener_name: str, records: bytes) -> Message:
    diverging = response.diverging_epoch or OffsetAndEpoch(NONE, NONE)
    snapshot_id = response.snapshot_id or SnapshotId(NONE, NONE)
    partition = schema.new(
        "PartitionData",
        partition_index=PARTITION,
        error_code=response.error,
        high_watermark=response.high_watermark,
        last_stable_offset=NONE,
        log_start_offset=response.log_start_offset,
        diverging_epoch=schema.new("EpochEndOffset", epoch=diverging.epoch, end_offset=diverging.offset),
        current_leader=schema.new("LeaderIdAndEpoch", leader_id=response.leader_id, leader_epoch=response.leader_epoch),
        snapshot_id=schema.new("SnapshotId", end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch),
        aborted_transactions=(),
        preferred_read_replica=NONE,
        records=records,
    )
    has_address = schema.version >= FIRST_WITH_LEADER_ADDRESS
    return schema.new(
        "FetchResponse",
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        session_id=0,
        responses=(schema.new("FetchableTopicResponse", topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
        node_endpoints=write_node_endpoints(schema, response, listener_name) if has_address else (),
    )


# Snapshots


def read_snapshot_request(request: Message, schema: Schema) -> FetchSnapshotRequest:
    if len(request.topics) != 1 or not request.topics[0].partitions:
        raise invalid(schema)
    topic = request.topics[0]
    partition = next((one for one in topic.partitions if one.partition == PARTITION), None)
    if topic.name != METADATA_TOPIC or partition is None:
        raise _unknown_snapshot_partition(schema, topic.name, topic.partitions[0].partition)
    return FetchSnapshotRequest(
        cluster_id=request.cluster_id,
        replica=ReplicaKey(request.replica_id, getattr(partition, "replica_directory_id", None)),
        current_leader_epoch=partition.current_leader_epoch,
        snapshot_id=SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        position=partition.position,
        max_bytes=request.max_bytes,
    )


def write_snapshot_request(schema: Schema, request: FetchSnapshotRequest) -> Message:
    partition = request_class(schema, "PartitionSnapshot")(
        partition=PARTITION,
        current_leader_epoch=request.current_leader_epoch,
        snapshot_id=request_class(schema, "SnapshotId")(
            end_offset=request.snapshot_id.end_offset, epoch=request.snapshot_id.epoch
        ),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    return schema.new(
        "FetchSnapshotRequest",
        cluster_id=request.cluster_id,
        replica_id=request.replica.node_id,
        max_bytes=request.max_bytes,
        topics=(request_class(schema, "TopicSnapshot")(name=METADATA_TOPIC, partitions=(partition,)),),
    )


def read_snapshot_response(response: Message, listener_name: str) -> FetchSnapshotResponse:
    topics = response.topics
    is_of_log = len(topics) == 1 and topics[0].name == METADATA_TOPIC and len(topics[0].partitions) == 1
    if response.error_code is not ErrorCode.none or not is_of_log or topics[0].partitions[0].index != PARTITION:
        return unnamed(FetchSnapshotResponse, response.error_code)
    partition = topics[0].partitions[0]
    leader = partition.current_leader
    endpoints = read_node_endpoints(response, leader.leader_id, listener_name)
    return replace(
        named(FetchSnapshotResponse, partition.error_code, leader, endpoints),
        snapshot_id=_read_snapshot_id(partition.snapshot_id),
        size_bytes=partition.size,
        position=partition.position,
        data=partition.unaligned_records,
    )


def write_snapshot_response(schema: Schema, response: FetchSnapshotResponse, listener_name: str) -> Message:
    snapshot_id = response.snapshot_id or SnapshotId(0, 0)
    partition = schema.new(
        "PartitionSnapshot",
        index=PARTITION,
        error_code=response.error,
        snapshot_id=schema.new("SnapshotId", end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch),
        current_leader=schema.new("LeaderIdAndEpoch", leader_id=response.leader_id, leader_epoch=response.leader_epoch),
        size=response.size_bytes,
        position=response.position,
        unaligned_records=response.data,
    )
    return _snapshot_response(schema, METADATA_TOPIC, partition, write_node_endpoints(schema, response, listener_name))


def _unknown_snapshot_partition(schema: Schema, topic: str, partition: int) -> RefusedRequest:
    error = ErrorCode.unknown_topic_or_partition
    part = schema.new(
        "PartitionSnapshot",
        index=partition,
        error_code=error,
        snapshot_id=schema.new("SnapshotId", end_offset=0, epoch=0),
        current_leader=schema.new("LeaderIdAndEpoch", leader_id=0, leader_epoch=0),
        size=0,
        position=0,
        unaligned_records=b"",
    )
    return RefusedRequest(error, _snapshot_response(schema, topic, part, ()))


def _snapshot_response(schema: Schema, topic: str, partition: Message, node_endpoints: tuple[Message, ...]) -> Message:
    return schema.new(
        "FetchSnapshotResponse",
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        topics=(schema.new("TopicSnapshot", name=topic, partitions=(partition,)),),
        node_endpoints=node_endpoints,
    )


def _read_snapshot_id(snapshot_id: Message) -> SnapshotId | None:
    is_one = snapshot_id.end_offset >= 0 and snapshot_id.epoch >= 0
    return SnapshotId(snapshot_id.end_offset, snapshot_id.epoch) if is_one else None

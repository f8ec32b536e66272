"""Fetch of the metadata log.

A Fetch names the log by its topic id, so versions before 13 cannot request it: Kafka's controllers reject them too.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.ids import METADATA_TOPIC_ID
from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft.batch import OffsetAndEpoch
from odradek.core.raft.messages import ANY_HIGH_WATERMARK, FetchRequest, FetchResponse
from odradek.core.raft.voter_set import ReplicaKey
from odradek.quorum.wire.batches import read_batches
from odradek.quorum.wire.leader_naming import read_node_endpoints, with_leader, without_leader, write_node_endpoints
from odradek.quorum.wire.parts import PARTITION, only, request_class
from odradek.quorum.wire.refusals import UnsupportedRequest, invalid
from odradek.wire.schemas import Message, Schema

FIRST_WITH_TOPIC_ID: Final = 13
FIRST_WITH_LEADER_ADDRESS: Final = 17
NONE: Final = -1
_MILLISECOND: Final = timedelta(milliseconds=1)


def read_fetch_request(request: Message, schema: Schema) -> FetchRequest:
    partition = _only_partition(request.topics)
    if partition is None or partition.partition != PARTITION:
        raise invalid(schema)
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
    """The replica's ID is in another field since version 15."""
    replica: Message = getattr(request, "replica_state", request)
    return int(replica.replica_id)


def write_fetch_request(schema: Schema, request: FetchRequest) -> Message:
    if schema.version < FIRST_WITH_TOPIC_ID:
        raise UnsupportedRequest(f"Fetch v{schema.version} has no topic ids")
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
    partition = _only_partition(response.responses)
    if response.error_code is not ErrorCode.none or partition is None or partition.partition_index != PARTITION:
        return without_leader(FetchResponse, response.error_code)
    leader, diverging, snapshot_id = partition.current_leader, partition.diverging_epoch, partition.snapshot_id
    is_diverging, is_behind = diverging.epoch >= 0, snapshot_id.epoch >= 0
    if is_diverging is not (diverging.end_offset >= 0) or is_behind is not (snapshot_id.end_offset >= 0):
        return without_leader(FetchResponse, ErrorCode.none)
    endpoints = read_node_endpoints(response, leader.leader_id, listener_name)
    return replace(
        with_leader(FetchResponse, partition.error_code, leader, endpoints),
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        diverging_epoch=OffsetAndEpoch(diverging.end_offset, diverging.epoch) if is_diverging else None,
        snapshot_id=SnapshotId(snapshot_id.end_offset, snapshot_id.epoch) if is_behind else None,
        batches=read_batches(partition.records or b""),
    )


def _only_partition(topics: Sequence[Message] | None) -> Message | None:
    topic = only(topics)
    if topic is None or getattr(topic, "topic_id", None) != METADATA_TOPIC_ID:
        return None
    return only(topic.partitions)


def refuse_fetch(schema: Schema, request: Message, error: ErrorCode) -> Message:
    """As in Kafka, every partition has the error in the versions before clients knew a top-level error."""
    topics = () if schema.version >= FIRST_WITH_TOPIC_ID else request.topics
    return schema.new(
        "FetchResponse",
        throttle_time=timedelta(0),
        error_code=error,
        session_id=getattr(request, "session_id", 0),
        responses=tuple(
            schema.new(
                "FetchableTopicResponse",
                topic=topic.topic,
                partitions=tuple(_refused_partition(schema, one.partition, error) for one in topic.partitions),
            )
            for topic in topics
        ),
    )


def _refused_partition(schema: Schema, index: int, error: ErrorCode) -> Message:
    return schema.new(
        "PartitionData",
        partition_index=index,
        error_code=error,
        high_watermark=NONE,
        last_stable_offset=NONE,
        log_start_offset=NONE,
        aborted_transactions=(),
        preferred_read_replica=NONE,
        records=b"",
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

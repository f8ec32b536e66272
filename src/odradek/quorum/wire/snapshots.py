"""FetchSnapshot: a snapshot of the metadata log in pieces.

Kafka 4.3.1 fails to write its own error responses, because they have no records, and responds with
UNKNOWN_SERVER_ERROR instead. Odradek writes them in the form that Kafka reads.
"""

from dataclasses import replace
from datetime import timedelta

from odradek.base.errors import ErrorCode
from odradek.base.ids import METADATA_TOPIC
from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft.messages import FetchSnapshotRequest, FetchSnapshotResponse
from odradek.core.raft.voter_set import ReplicaKey
from odradek.quorum.wire.leader_naming import read_node_endpoints, with_leader, without_leader, write_node_endpoints
from odradek.quorum.wire.parts import PARTITION, only, request_class
from odradek.quorum.wire.refusals import RefusedRequest, invalid
from odradek.wire.schemas import Message, Schema


def read_snapshot_request(request: Message, schema: Schema) -> FetchSnapshotRequest:
    """A missing or empty topic crashes Kafka's controller. Here it is rejected."""
    topic = only(request.topics)
    if topic is None or not topic.partitions:
        raise invalid(schema)
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
    topic = only(response.topics)
    partition = only(topic.partitions) if topic is not None and topic.name == METADATA_TOPIC else None
    if response.error_code is not ErrorCode.none or partition is None or partition.index != PARTITION:
        return without_leader(FetchSnapshotResponse, response.error_code)
    leader, snapshot_id = partition.current_leader, partition.snapshot_id
    is_one = partition.error_code is ErrorCode.none and snapshot_id.end_offset >= 0 and snapshot_id.epoch >= 0
    endpoints = read_node_endpoints(response, leader.leader_id, listener_name)
    return replace(
        with_leader(FetchSnapshotResponse, partition.error_code, leader, endpoints),
        snapshot_id=SnapshotId(snapshot_id.end_offset, snapshot_id.epoch) if is_one else None,
        size_bytes=partition.size,
        position=partition.position,
        data=partition.unaligned_records or b"",
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

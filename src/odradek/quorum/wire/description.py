"""DescribeQuorum."""

from collections.abc import Callable, Iterable

from odradek.base.errors import ErrorCode
from odradek.core.raft.messages import DescribeQuorumRequest, DescribeQuorumResponse, ReplicaStatus
from odradek.quorum.wire.endpoints import write_endpoints
from odradek.quorum.wire.parts import only_partition, response_topics
from odradek.quorum.wire.refusals import RefusedRequest, message_of
from odradek.wire.schemas import Message, Schema


def read_describe_request(request: Message, schema: Schema) -> DescribeQuorumRequest:
    if only_partition(request.topics) is None:
        raise _unknown_partitions(schema, request.topics)
    return DescribeQuorumRequest()


def write_describe_response(
    schema: Schema, response: DescribeQuorumResponse, wall_ms_of: Callable[[int], int]
) -> Message:
    if response.error is not ErrorCode.none:
        return _response(schema, response_topics(schema, **_empty_partition(response.error)))
    topics = response_topics(
        schema,
        error_code=ErrorCode.none,
        error_message="",
        leader_id=response.leader_id,
        leader_epoch=response.leader_epoch,
        high_watermark=response.high_watermark,
        current_voters=_write_statuses(schema, response.voters, wall_ms_of),
        observers=_write_statuses(schema, response.observers, wall_ms_of),
    )
    return _response(schema, topics, _write_nodes(schema, response))


def _write_statuses(
    schema: Schema, statuses: Iterable[ReplicaStatus], wall_ms_of: Callable[[int], int]
) -> tuple[Message, ...]:
    def wall_ms(time_ms: int) -> int:
        return time_ms if time_ms < 0 else wall_ms_of(time_ms)

    return tuple(
        schema.new(
            "ReplicaState",
            replica_id=one.replica.node_id,
            replica_directory_id=one.replica.directory_id,
            log_end_offset=one.log_end_offset,
            last_fetch_timestamp=wall_ms(one.last_fetch_ms),
            last_caught_up_timestamp=wall_ms(one.last_caught_up_ms),
        )
        for one in statuses
    )


def _write_nodes(schema: Schema, response: DescribeQuorumResponse) -> tuple[Message, ...]:
    if not schema.knows("Node"):
        return ()
    return tuple(
        schema.new("Node", node_id=node_id, listeners=write_endpoints(schema["Listener"], endpoints))
        for node_id, endpoints in response.endpoints
    )


def _unknown_partitions(schema: Schema, topics: Iterable[Message]) -> RefusedRequest:
    """An error for each partition of the request."""
    error = ErrorCode.unknown_topic_or_partition
    topic_data = tuple(
        schema.new(
            "TopicData",
            topic_name=topic.topic_name,
            partitions=tuple(
                schema.new("PartitionData", partition_index=one.partition_index, **_empty_partition(error))
                for one in topic.partitions
            ),
        )
        for topic in topics
    )
    return RefusedRequest(error, _response(schema, topic_data))


def _empty_partition(error: ErrorCode) -> dict[str, object]:
    return {
        "error_code": error,
        "error_message": message_of(error),
        "leader_id": 0,
        "leader_epoch": 0,
        "high_watermark": 0,
        "current_voters": (),
        "observers": (),
    }


def _response(schema: Schema, topics: tuple[Message, ...], nodes: tuple[Message, ...] = ()) -> Message:
    return schema.new("DescribeQuorumResponse", error_code=ErrorCode.none, error_message="", topics=topics, nodes=nodes)

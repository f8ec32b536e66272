"""Reassignment requests: many partitions at once, with an error for each."""

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.client.connection import milliseconds
from odradek.client.log_dirs import sizes_on
from odradek.client.reassignments import Reassignments
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema
from tests.unit.client.scripted_broker import METADATA, Handler, ScriptedBroker

VERSIONS = {
    METADATA: (0, 12),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 5),
    ApiKey.ELECT_LEADERS: (0, 2),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
}
ORDERS = TopicPartition("orders", 0)


def scripted(api_key: int, handle: Handler) -> ScriptedBroker:
    broker = ScriptedBroker({api_key: handle}, VERSIONS)
    broker.handlers[METADATA] = broker.metadata({"orders": 2})
    return broker


def altered(codes: dict[int, ErrorCode]) -> Handler:
    """Every partition succeeds except those with an error code."""

    def handle(request: Message, chosen: Schema) -> Message:
        responses = tuple(
            chosen.new(
                "ReassignableTopicResponse",
                name=topic.name,
                partitions=tuple(
                    chosen.new(
                        "ReassignablePartitionResponse",
                        partition_index=one.partition_index,
                        error_code=codes.get(one.partition_index, ErrorCode.none),
                        error_message=None,
                    )
                    for one in topic.partitions
                ),
            )
            for topic in request.topics
        )
        return chosen.new(
            "AlterPartitionReassignmentsResponse",
            throttle_time=milliseconds(0),
            allow_replication_factor_change=True,
            error_code=ErrorCode.none,
            error_message=None,
            responses=responses,
        )

    return handle


def test_many_reassignments_are_sent_in_several_requests() -> None:
    refusing = altered({7: ErrorCode.invalid_replica_assignment, 1700: ErrorCode.unknown_topic_or_partition})
    with scripted(ApiKey.ALTER_PARTITION_REASSIGNMENTS, refusing) as broker, Cluster([broker.address]) as cluster:
        batch_sizes: list[int] = []
        wanted = {TopicPartition("orders", number): (1, 2) for number in range(2500)}
        refusals = Reassignments(cluster).start(wanted, on_response=batch_sizes.append)
        requested = [
            one for request in broker.requests if hasattr(request, "timeout") for one in request.topics[0].partitions
        ]
    assert batch_sizes == [1000, 1000, 500]
    assert [one.partition_index for one in requested] == list(range(2500))
    assert {str(partition): error.code for partition, error in refusals.items()} == {
        "orders-7": ErrorCode.invalid_replica_assignment,
        "orders-1700": ErrorCode.unknown_topic_or_partition,
    }


def test_cancelling_a_completed_reassignment_is_not_an_error() -> None:
    refusing = altered({0: ErrorCode.no_reassignment_in_progress, 1: ErrorCode.cluster_authorization_failed})
    with scripted(ApiKey.ALTER_PARTITION_REASSIGNMENTS, refusing) as broker, Cluster([broker.address]) as cluster:
        refusals = Reassignments(cluster).cancel([ORDERS, TopicPartition("orders", 1)])
        (topic,) = broker.requests[-1].topics
    assert [one.replicas for one in topic.partitions] == [None, None]
    assert list(refusals) == [TopicPartition("orders", 1)]


def test_partitions_with_their_preferred_leader_are_left_out_of_the_result() -> None:
    codes = [ErrorCode.none, ErrorCode.election_not_needed, ErrorCode.preferred_leader_not_available]

    def handle(request: Message, chosen: Schema) -> Message:
        results = tuple(
            chosen.new("PartitionResult", partition_id=number, error_code=code, error_message=None)
            for number, code in enumerate(codes)
        )
        topic = chosen.new("ReplicaElectionResult", topic="orders", partition_result=results)
        return chosen.new(
            "ElectLeadersResponse",
            throttle_time=milliseconds(0),
            error_code=ErrorCode.none,
            replica_election_results=(topic,),
        )

    with scripted(ApiKey.ELECT_LEADERS, handle) as broker, Cluster([broker.address]) as cluster:
        elected, refused = Reassignments(cluster).elect_preferred(None)
        assert broker.requests[-1].topic_partitions is None
        Reassignments(cluster).elect_preferred([ORDERS])
        assert broker.requests[-1].topic_partitions[0].partitions == (0,)
    assert elected == [ORDERS]
    assert list(refused) == [TopicPartition("orders", 2)]


def test_sizes_exclude_offline_log_dirs_and_future_replicas() -> None:
    def handle(request: Message, chosen: Schema) -> Message:
        def result(code: ErrorCode, *partitions: tuple[int, int, bool]) -> Message:
            held = tuple(
                chosen.new(
                    "DescribeLogDirsPartition",
                    partition_index=number,
                    partition_size=size,
                    offset_lag=0,
                    is_future_key=is_future,
                )
                for number, size, is_future in partitions
            )
            topics = (chosen.new("DescribeLogDirsTopic", name="orders", partitions=held),)
            return chosen.new("DescribeLogDirsResult", error_code=code, log_dir="data", topics=topics)

        return chosen.new(
            "DescribeLogDirsResponse",
            throttle_time=milliseconds(0),
            error_code=ErrorCode.none,
            results=(
                result(ErrorCode.none, (0, 100, False), (1, 5, True)),
                result(ErrorCode.kafka_storage_error, (2, 7, False)),
            ),
        )

    with scripted(ApiKey.DESCRIBE_LOG_DIRS, handle) as broker, Cluster([broker.address]) as cluster:
        assert sizes_on(cluster, [1]) == {1: {ORDERS: 100}}
        assert broker.requests[-1].topics is None
        sizes_on(cluster, [1], [ORDERS])
        assert broker.requests[-1].topics[0].partitions == (0,)

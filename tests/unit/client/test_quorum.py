from typing import Any
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.address import Address
from odradek.client.cluster import Cluster
from odradek.client.connection import milliseconds
from odradek.client.membership import brokers, controllers, unregister_broker
from odradek.client.quorum import ControllerEndpoint, QuorumAdmin
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema
from tests.unit.client.scripted_broker import METADATA, Handler, ScriptedBroker

FIRST, SECOND, THIRD = (UUID(int=1000 + number) for number in range(3))
VERSIONS = {
    METADATA: (0, 12),
    ApiKey.DESCRIBE_QUORUM: (0, 2),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.UNREGISTER_BROKER: (0, 0),
    ApiKey.ADD_RAFT_VOTER: (0, 1),
    ApiKey.REMOVE_RAFT_VOTER: (0, 0),
}


def quorum_response(code: ErrorCode = ErrorCode.none) -> Handler:
    """Leader 2, voter 1, which is behind, and observer 4, which has not fetched yet."""

    def handle(request: Message, chosen: Schema) -> Message:
        def replica(node_id: int, directory_id: UUID, end_offset: int, fetched: int) -> Message:
            return chosen.new(
                "ReplicaState",
                replica_id=node_id,
                replica_directory_id=directory_id,
                log_end_offset=end_offset,
                last_fetch_timestamp=fetched,
                last_caught_up_timestamp=fetched,
            )

        assert request.topics[0].topic_name == "__cluster_metadata"
        partition = chosen.new(
            "PartitionData",
            partition_index=0,
            error_code=code,
            error_message=None,
            leader_id=2,
            leader_epoch=7,
            high_watermark=90,
            current_voters=(replica(1, FIRST, 80, 500), replica(2, SECOND, 100, 1000)),
            observers=(replica(4, THIRD, -1, -1),),
        )
        endpoint = chosen.new("Listener", name="CONTROLLER", host="h", port=9093) if chosen.knows("Listener") else None
        return chosen.new(
            "DescribeQuorumResponse",
            error_code=ErrorCode.none,
            error_message=None,
            topics=(chosen.new("TopicData", topic_name="__cluster_metadata", partitions=(partition,)),),
            nodes=(chosen.new("Node", node_id=2, listeners=(endpoint,)),) if endpoint else (),
        )

    return handle


def cluster_response(
    nodes: dict[int, Address], *, controller_id: int = 1, code: ErrorCode = ErrorCode.none, fenced: tuple[int, ...] = ()
) -> Handler:
    def handle(request: Message, chosen: Schema) -> Message:
        return chosen.new(
            "DescribeClusterResponse",
            throttle_time=milliseconds(0),
            error_code=code,
            error_message="no" if code else None,
            endpoint_type=getattr(request, "endpoint_type", 1),
            cluster_id="scripted",
            controller_id=controller_id,
            brokers=tuple(
                chosen.new(
                    "DescribeClusterBroker",
                    broker_id=node_id,
                    host=address.host,
                    port=address.port,
                    rack="r",
                    is_fenced=node_id in fenced,
                )
                for node_id, address in nodes.items()
            ),
            cluster_authorized_operations=0,
        )

    return handle


def plain_response(name: str, code: ErrorCode = ErrorCode.none) -> Handler:
    def handle(request: Message, chosen: Schema) -> Any:
        return chosen.new(name, throttle_time=milliseconds(0), error_code=code, error_message=None)

    return handle


@pytest.mark.parametrize("version", [0, 1, 2])
def test_describe_the_quorum(version: int) -> None:
    with (
        ScriptedBroker({ApiKey.DESCRIBE_QUORUM: quorum_response()}, {ApiKey.DESCRIBE_QUORUM: (0, version)}) as broker,
        Cluster([broker.address]) as cluster,
    ):
        status = QuorumAdmin(cluster).describe()
    assert (status.leader_id, status.leader_epoch, status.high_watermark) == (2, 7, 90)
    assert [(replica.id, replica.is_voter, status.lag(replica)) for replica in status.replicas] == [
        (2, True, 0),
        (1, True, 20),
        (4, False, None),
    ]
    leader = status.voters[0]
    assert leader.endpoints == ((ControllerEndpoint("CONTROLLER", "h", 9093),) if version == 2 else ())
    assert leader.directory_id == (SECOND if version == 2 else None)
    assert leader.last_fetch_ms == (1000 if version else -1)


def test_requests_to_an_inactive_controller_go_to_the_active_one() -> None:
    passive = ScriptedBroker({ApiKey.DESCRIBE_QUORUM: quorum_response(ErrorCode.not_leader_or_follower)}, VERSIONS)
    active = ScriptedBroker({ApiKey.DESCRIBE_QUORUM: quorum_response()}, VERSIONS)
    with passive, active, Cluster([passive.address]) as cluster:
        passive.handlers[ApiKey.DESCRIBE_CLUSTER] = cluster_response(
            {1: passive.address, 2: active.address}, controller_id=2
        )
        assert QuorumAdmin(cluster).describe().leader_id == 2
    assert [getattr(request, "endpoint_type", None) for request in passive.requests] == [None, 2]
    assert len(active.requests) == 1


def test_requests_are_retried_until_a_controller_is_active() -> None:
    handlers = iter((quorum_response(ErrorCode.not_controller), quorum_response()))
    with ScriptedBroker({}, VERSIONS) as broker, Cluster([broker.address]) as cluster:
        broker.handlers[ApiKey.DESCRIBE_QUORUM] = lambda request, chosen: next(handlers)(request, chosen)
        broker.handlers[ApiKey.DESCRIBE_CLUSTER] = cluster_response({}, code=ErrorCode.mismatched_endpoint_type)
        assert QuorumAdmin(cluster).describe().leader_id == 2


def test_add_and_remove_a_voter() -> None:
    handlers = {
        ApiKey.ADD_RAFT_VOTER: plain_response("AddRaftVoterResponse"),
        ApiKey.REMOVE_RAFT_VOTER: plain_response("RemoveRaftVoterResponse", ErrorCode.voter_not_found),
    }
    with ScriptedBroker(handlers, VERSIONS) as broker, Cluster([broker.address], timeout_s=5) as cluster:
        admin = QuorumAdmin(cluster)
        admin.add_voter(4, THIRD, [ControllerEndpoint("CONTROLLER", "::1", 9094)], cluster_id="scripted")
        with pytest.raises(KafkaError) as caught:
            admin.remove_voter(4, THIRD)
    assert caught.value.code is ErrorCode.voter_not_found
    added, removed = broker.requests
    assert (added.cluster_id, added.voter_id, added.voter_directory_id) == ("scripted", 4, THIRD)
    assert [(one.name, one.host, one.port) for one in added.listeners] == [("CONTROLLER", "::1", 9094)]
    assert added.timeout == milliseconds(5000)
    assert added.ack_when_committed
    assert (removed.cluster_id, removed.voter_id, removed.voter_directory_id) == (None, 4, THIRD)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_brokers_include_fenced_ones(version: int) -> None:
    nodes = {2: Address("h", 2), 1: Address("h", 1)}
    handlers = {ApiKey.DESCRIBE_CLUSTER: cluster_response(nodes, fenced=(2,))}
    with (
        ScriptedBroker(handlers, {ApiKey.DESCRIBE_CLUSTER: (0, version)}) as broker,
        Cluster([broker.address]) as cluster,
    ):
        members = brokers(cluster)
    assert [(node.id, node.address.port, node.rack) for node in members.nodes.values()] == [(1, 1, "r"), (2, 2, "r")]
    assert members.nodes[2].is_fenced is (version == 2)
    assert getattr(broker.requests[0], "include_fenced_brokers", True)


def test_brokers_reject_requests_for_controllers() -> None:
    handlers = {ApiKey.DESCRIBE_CLUSTER: cluster_response({}, code=ErrorCode.mismatched_endpoint_type)}
    with ScriptedBroker(handlers, VERSIONS) as broker, Cluster([broker.address]) as cluster:
        with pytest.raises(KafkaError) as caught:
            controllers(cluster)
        assert caught.value.code is ErrorCode.mismatched_endpoint_type


def test_unregister_a_broker() -> None:
    with ScriptedBroker({ApiKey.UNREGISTER_BROKER: plain_response("UnregisterBrokerResponse")}, VERSIONS) as broker:
        broker.handlers[METADATA] = broker.metadata({})
        with Cluster([broker.address]) as cluster:
            unregister_broker(cluster, 3)
    assert broker.requests[-1].broker_id == 3

"""What controllers authorize for each API, and what they respond to denied requests, as Apache Kafka 4.3.1 does."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.principal import Principal
from odradek.core.security.access import UNRESTRICTED, Access, AuthorizerNotReady
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType
from odradek.quorum import wire
from odradek.wire.apis import CONSENSUS_APIS, CONTROLLER_APIS, FORWARDABLE_APIS, ApiKey
from odradek.wire.forwarding import read_forwarded_response, write_forwarded_request
from odradek.wire.principal import write_principal
from odradek.wire.schemas import schema
from tests import raw_wire
from tests.unit.fake_access import FakeAccess, on_cluster, on_topic
from tests.unit.quorum.apis.controller_versions import versions_of
from tests.unit.quorum.fake_controller_node import AcceptingCommands, FakeControllerNode, fail_with

DENIED = ErrorCode.cluster_authorization_failed
TOPIC_DENIED = ErrorCode.topic_authorization_failed
RESOURCE_BROKER_LOGGER = 8
DEFAULT_MESSAGE = "Cluster authorization failed."

CLUSTER_OPERATIONS = {
    ApiKey.FETCH: Operation.CLUSTER_ACTION,
    ApiKey.ELECT_LEADERS: Operation.ALTER,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Operation.ALTER,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Operation.DESCRIBE,
    ApiKey.VOTE: Operation.CLUSTER_ACTION,
    ApiKey.BEGIN_QUORUM_EPOCH: Operation.CLUSTER_ACTION,
    ApiKey.END_QUORUM_EPOCH: Operation.CLUSTER_ACTION,
    ApiKey.DESCRIBE_QUORUM: Operation.DESCRIBE,
    ApiKey.ALTER_PARTITION: Operation.CLUSTER_ACTION,
    ApiKey.UPDATE_FEATURES: Operation.ALTER,
    ApiKey.FETCH_SNAPSHOT: Operation.CLUSTER_ACTION,
    ApiKey.BROKER_REGISTRATION: Operation.CLUSTER_ACTION,
    ApiKey.BROKER_HEARTBEAT: Operation.CLUSTER_ACTION,
    ApiKey.UNREGISTER_BROKER: Operation.ALTER,
    ApiKey.ALLOCATE_PRODUCER_IDS: Operation.CLUSTER_ACTION,
    ApiKey.CONTROLLER_REGISTRATION: Operation.CLUSTER_ACTION,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: Operation.CLUSTER_ACTION,
    ApiKey.ALTER_CLIENT_QUOTAS: Operation.ALTER_CONFIGS,
    ApiKey.ADD_RAFT_VOTER: Operation.ALTER,
    ApiKey.REMOVE_RAFT_VOTER: Operation.ALTER,
    ApiKey.UPDATE_RAFT_VOTER: Operation.CLUSTER_ACTION,
    ApiKey.ALTER_CLIENT_QUOTAS: Operation.ALTER_CONFIGS,
}
DEFAULT_MESSAGES = {
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
}


def every_version() -> Iterator[Any]:
    for api_key in CLUSTER_OPERATIONS:
        for version in versions_of(api_key):
            yield pytest.param(api_key, version, id=f"{api_key.name.lower()}-v{version}")


@pytest.fixture
def node() -> FakeControllerNode:
    return FakeControllerNode()


def calls_of(node: FakeControllerNode) -> int:
    return node.controller.commands + len(node.quorum.requests)


class TestOperationsOnTheCluster:
    @pytest.mark.parametrize(("api_key", "version"), [*every_version()])
    def test_request_without_the_operation_is_denied(
        self, node: FakeControllerNode, api_key: ApiKey, version: int
    ) -> None:
        needed = CLUSTER_OPERATIONS[api_key]
        # Every other operation, and the same one on a topic, does not help.
        access = FakeAccess(
            *(on_cluster(one) for one in Operation if one is not needed), on_topic(needed, CLUSTER_NAME)
        )
        response = node.request(api_key, version, access=access)
        assert getattr(response, "error_code", DENIED) is DENIED
        assert calls_of(node) == 0
        assert access.logged_denials() == [on_cluster(needed)]
        if hasattr(response, "error_message"):
            request_name = schema(api_key, version).api_name
            expected = f"Request {request_name} needs {needed.name} permission."
            assert response.error_message == (DEFAULT_MESSAGE if api_key in DEFAULT_MESSAGES else expected)

    @pytest.mark.parametrize(("api_key", "version"), [*every_version()])
    def test_request_with_only_that_operation_is_executed(
        self, node: FakeControllerNode, api_key: ApiKey, version: int
    ) -> None:
        if api_key in CONSENSUS_APIS:
            node.quorum.response = wire.refuse(api_key, schema(api_key, version), ErrorCode.none)
        access = FakeAccess(on_cluster(CLUSTER_OPERATIONS[api_key]))
        response = node.request(api_key, version, access=access)
        assert getattr(response, "error_code", None) is not DENIED
        assert calls_of(node) == 1

    def test_every_api_is_authorized(self) -> None:
        """Those for ACLs, credentials and tokens have tests of their own."""
        tested_elsewhere = {
            ApiKey.DESCRIBE_ACLS,
            ApiKey.CREATE_ACLS,
            ApiKey.DELETE_ACLS,
            ApiKey.CREATE_DELEGATION_TOKEN,
            ApiKey.RENEW_DELEGATION_TOKEN,
            ApiKey.EXPIRE_DELEGATION_TOKEN,
            ApiKey.DESCRIBE_DELEGATION_TOKEN,
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        }
        tested_below = {
            ApiKey.CREATE_TOPICS,
            ApiKey.DELETE_TOPICS,
            ApiKey.DESCRIBE_CONFIGS,
            ApiKey.ALTER_CONFIGS,
            ApiKey.CREATE_PARTITIONS,
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            ApiKey.ENVELOPE,
            ApiKey.DESCRIBE_CLUSTER,
        }
        needs_nothing = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
        known = tested_below | tested_elsewhere | needs_nothing | CLUSTER_OPERATIONS.keys()
        assert CONTROLLER_APIS.keys() <= known
        assert tested_below | CLUSTER_OPERATIONS.keys() <= CONTROLLER_APIS.keys()

    @pytest.mark.parametrize("version", versions_of(ApiKey.FETCH))
    def test_denied_fetch_has_an_error_per_partition_in_old_versions(
        self, node: FakeControllerNode, version: int
    ) -> None:
        partitions = [{"partition": 0}, {"partition": 3}]
        topics = [{"topic": "a", "topic_id": UUID(int=5), "partitions": partitions}]
        response = node.request(ApiKey.FETCH, version, access=FakeAccess(), topics=topics, session_id=77)
        found = [
            (one.topic, part.partition_index, part.error_code, part.high_watermark, part.records)
            for one in response.responses
            for part in one.partitions
        ]
        assert found == ([] if version >= 13 else [("a", 0, DENIED, -1, b""), ("a", 3, DENIED, -1, b"")])
        if version >= 7:
            assert (response.error_code, response.session_id) == (DENIED, 77)

    @pytest.mark.parametrize("version", versions_of(ApiKey.ELECT_LEADERS))
    def test_denied_election_has_an_error_per_partition(self, node: FakeControllerNode, version: int) -> None:
        topics = [{"topic": "a", "partitions": [0, 3]}]
        response = node.request(ApiKey.ELECT_LEADERS, version, access=FakeAccess(), topic_partitions=topics)
        (result,) = response.replica_election_results
        message = "Request ElectLeaders needs ALTER permission."
        assert [(one.partition_id, one.error_code, one.error_message) for one in result.partition_result] == [
            (0, DENIED, message),
            (3, DENIED, message),
        ]

    @pytest.mark.parametrize("version", versions_of(ApiKey.ALTER_PARTITION_REASSIGNMENTS))
    def test_denied_reassignment_has_an_error_per_partition(self, node: FakeControllerNode, version: int) -> None:
        topics = [{"name": "a", "partitions": [{"partition_index": 3, "replicas": [1]}]}]
        response = node.request(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, access=FakeAccess(), topics=topics)
        ((partition,),) = (one.partitions for one in response.responses)
        assert (partition.partition_index, partition.error_code) == (3, DENIED)
        assert partition.error_message == "Request AlterPartitionReassignments needs ALTER permission."

    @pytest.mark.parametrize("version", versions_of(ApiKey.ALTER_CLIENT_QUOTAS))
    def test_denied_change_of_quotas_has_an_error_per_entity(self, node: FakeControllerNode, version: int) -> None:
        entity = [{"entity_type": "user", "entity_name": "ann"}]
        entries = [{"entity": entity, "ops": [{"key": "producer_byte_rate", "value": 1.0, "remove": False}]}]
        response = node.request(ApiKey.ALTER_CLIENT_QUOTAS, version, access=FakeAccess(), entries=entries)
        (entry,) = response.entries
        assert (entry.error_code, entry.entity[0].entity_name) == (DENIED, "ann")
        assert entry.error_message == "Request AlterClientQuotas needs ALTER_CONFIGS permission."

    def test_denied_list_of_reassignments_repeats_the_requested_partitions(self, node: FakeControllerNode) -> None:
        topics = [{"name": "a", "partition_indexes": [0, 3]}]
        response = node.request(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, access=FakeAccess(), topics=topics)
        ((first, second),) = (one.partitions for one in response.topics)
        assert [(one.partition_index, one.replicas) for one in (first, second)] == [(0, ()), (3, ())]

    def test_denied_registration_does_not_replace_a_process(self, node: FakeControllerNode) -> None:
        async def find(registration: Any, peer_host: str | None) -> None:
            raise AssertionError("denied before")

        node.find_dead_process = find  # type: ignore[assignment]
        assert node.request(ApiKey.BROKER_REGISTRATION, 4, access=FakeAccess()).error_code is DENIED

    def test_denied_heartbeat_is_not_remembered(self, node: FakeControllerNode) -> None:
        node.controller.run = AcceptingCommands().run
        assert node.request(ApiKey.BROKER_HEARTBEAT, 1, access=FakeAccess()).error_code is DENIED
        assert node.heartbeats == []


class TestDescribeCluster:
    @pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_CLUSTER))
    def test_alter_is_needed_before_the_endpoint_type_is_checked(self, node: FakeControllerNode, version: int) -> None:
        for endpoint_type in (1, 2, 9):
            access = FakeAccess(on_cluster(Operation.DESCRIBE))
            response = node.request(ApiKey.DESCRIBE_CLUSTER, version, access=access, endpoint_type=endpoint_type)
            assert (response.error_code, response.cluster_id, response.controller_id) == (DENIED, "", -1)
            assert response.error_message == "Request DescribeCluster needs ALTER permission."
            assert response.cluster_authorized_operations == -(2**31)

    @pytest.mark.parametrize("version", [1, 2])
    def test_authorized_operations_need_describe_too(self, node: FakeControllerNode, version: int) -> None:
        def operations(*granted: Operation, requested: bool = True) -> int:
            response = node.request(
                ApiKey.DESCRIBE_CLUSTER,
                version,
                access=FakeAccess(*map(on_cluster, granted)),
                endpoint_type=2,
                include_cluster_authorized_operations=requested,
            )
            assert response.error_code is ErrorCode.none
            found: int = response.cluster_authorized_operations
            return found

        assert operations(Operation.ALTER) == 0
        assert operations(Operation.ALTER, Operation.DESCRIBE) == 1 << 7 | 1 << 8
        assert operations(Operation.ALTER, requested=False) == -(2**31)


class TestEnvelope:
    def forward(self, node: FakeControllerNode, sender: Access, *, host: bytes = b"\x0a\1\2\3") -> Any:
        messages = schema(ApiKey.CREATE_TOPICS, 7)
        request = raw_wire.build(messages.request_type, {"topics": [{"name": "orders"}]})
        data = write_forwarded_request(messages, request, correlation_id=5, client_id="client")
        return node.request(
            ApiKey.ENVELOPE,
            0,
            access=sender,
            request_data=data,
            request_principal=write_principal(Principal("User", "alice")),
            client_host_address=host,
        )

    def test_sender_needs_cluster_action_before_anything_is_read(self, node: FakeControllerNode) -> None:
        access = FakeAccess(on_cluster(Operation.CREATE), on_topic(Operation.CREATE, "orders"))
        response = self.forward(node, access)
        assert (response.error_code, response.response_data) == (DENIED, None)
        response = node.request(ApiKey.ENVELOPE, 0, access=access, request_data=b"", client_host_address=b"")
        assert response.error_code is DENIED
        assert access.logged_denials() == [on_cluster(Operation.CLUSTER_ACTION)] * 2
        assert calls_of(node) == 0

    @pytest.mark.parametrize(
        ("address", "host"),
        [
            (b"\x0a\1\2\3", "10.1.2.3"),
            (bytes(15) + b"\1", "::1"),
            (b"\xfe\x80" + bytes(13) + b"\1", "fe80::1"),
            (bytes(10) + b"\xff\xff\x0a\1\2\3", "10.1.2.3"),
        ],
    )
    def test_inner_request_is_authorized_as_the_client(
        self, node: FakeControllerNode, address: bytes, host: str
    ) -> None:
        clients: list[tuple[Principal, str]] = []

        def access_of(principal: Principal, peer_host: str) -> Access:
            clients.append((principal, peer_host))
            return FakeAccess()

        node.access_of = access_of  # type: ignore[method-assign]
        node.controller.run = AcceptingCommands().run
        response = self.forward(node, FakeAccess(on_cluster(Operation.CLUSTER_ACTION)), host=address)
        assert clients == [(Principal("User", "alice"), host)]
        assert response.error_code is ErrorCode.none
        inner = read_forwarded_response(schema(ApiKey.CREATE_TOPICS, 7), response.response_data, correlation_id=5)
        assert [one.error_code for one in inner.topics] == [TOPIC_DENIED]

    @pytest.mark.parametrize("api_key", sorted(FORWARDABLE_APIS))
    def test_denied_inner_request_of_each_api_has_a_response(self, node: FakeControllerNode, api_key: int) -> None:
        node.access = FakeAccess()
        # Requests about topics are authorized there.
        node.controller.run = fail_with(ErrorCode.request_timed_out)
        messages = schema(api_key, CONTROLLER_APIS[api_key].high)
        data = write_forwarded_request(
            messages, raw_wire.build(messages.request_type, {}), correlation_id=5, client_id="client"
        )
        response = node.request(
            ApiKey.ENVELOPE,
            0,
            access=FakeAccess(on_cluster(Operation.CLUSTER_ACTION)),
            request_data=data,
            request_principal=write_principal(Principal("User", "alice")),
            client_host_address=b"\x0a\1\2\3",
        )
        assert response.error_code is ErrorCode.none
        read_forwarded_response(messages, response.response_data, correlation_id=5)

    def test_client_needs_no_cluster_action(self, node: FakeControllerNode) -> None:
        node.access = FakeAccess(on_topic(Operation.CREATE, "orders"))
        node.controller.run = AcceptingCommands().run
        response = self.forward(node, FakeAccess(on_cluster(Operation.CLUSTER_ACTION)))
        inner = read_forwarded_response(schema(ApiKey.CREATE_TOPICS, 7), response.response_data, correlation_id=5)
        assert [one.error_code for one in inner.topics] == [ErrorCode.topic_already_exists]

    def test_controller_that_is_not_active_denies_nothing(self, node: FakeControllerNode) -> None:
        """The broker then finds the active controller, which decides."""
        node.access = FakeAccess()
        response = self.forward(node, UNRESTRICTED)
        assert response.error_code is ErrorCode.not_controller


class NotReady(FakeAccess):
    def allows(self, operation: Operation, resource_type: ResourceType, name: str, *, logs_denial: bool = True) -> bool:
        raise AuthorizerNotReady


@pytest.mark.parametrize(("api_key", "version"), [*every_version()])
def test_authorizer_that_is_not_ready_is_a_server_error(
    node: FakeControllerNode, api_key: ApiKey, version: int
) -> None:
    response = node.request(api_key, version, access=NotReady())
    assert getattr(response, "error_code", ErrorCode.unknown_server_error) is ErrorCode.unknown_server_error
    assert calls_of(node) == 0


def test_envelope_to_an_authorizer_that_is_not_ready_is_a_server_error(node: FakeControllerNode) -> None:
    response = node.request(ApiKey.ENVELOPE, 0, access=NotReady(), request_data=b"", client_host_address=b"")
    assert response.error_code is ErrorCode.unknown_server_error

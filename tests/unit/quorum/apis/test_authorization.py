"""What controllers authorize for each API, and what they respond to denied requests, as Apache Kafka 4.3.1 does."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.principal import Principal
from odradek.config.alteration import Operation as ConfigOperation
from odradek.core.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
)
from odradek.core.security.access import UNRESTRICTED, Access
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType
from odradek.quorum import wire
from odradek.wire.apis import CONSENSUS_APIS, CONTROLLER_APIS, ApiKey
from odradek.wire.forwarding import read_forwarded_response, write_forwarded_request
from odradek.wire.principal import write_principal
from odradek.wire.schemas import schema
from tests import raw_wire
from tests.unit.core.controller.cluster import Cluster
from tests.unit.fake_access import FakeAccess, Grant
from tests.unit.quorum.fake_controller_node import AcceptingCommands, FakeControllerNode

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
    ApiKey.ADD_RAFT_VOTER: Operation.ALTER,
    ApiKey.REMOVE_RAFT_VOTER: Operation.ALTER,
    ApiKey.UPDATE_RAFT_VOTER: Operation.CLUSTER_ACTION,
}
DEFAULT_MESSAGES = {
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
}


def cluster(operation: Operation) -> Grant:
    return (operation, ResourceType.CLUSTER, CLUSTER_NAME)


def topic(operation: Operation, name: str) -> Grant:
    return (operation, ResourceType.TOPIC, name)


def versions_of(api_key: ApiKey) -> range:
    api = CONTROLLER_APIS[api_key]
    return range(api.low, api.high + 1)


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
        access = FakeAccess(*(cluster(one) for one in Operation if one is not needed), topic(needed, CLUSTER_NAME))
        response = node.request(api_key, version, access=access)
        assert getattr(response, "error_code", DENIED) is DENIED
        assert calls_of(node) == 0
        assert access.logged_denials() == [cluster(needed)]
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
        access = FakeAccess(cluster(CLUSTER_OPERATIONS[api_key]))
        response = node.request(api_key, version, access=access)
        assert getattr(response, "error_code", None) is not DENIED
        assert calls_of(node) == 1

    def test_every_api_is_authorized(self) -> None:
        """Those for ACLs, credentials, tokens and quotas have tests of their own."""
        tested_elsewhere = {
            ApiKey.DESCRIBE_ACLS,
            ApiKey.CREATE_ACLS,
            ApiKey.DELETE_ACLS,
            ApiKey.CREATE_DELEGATION_TOKEN,
            ApiKey.RENEW_DELEGATION_TOKEN,
            ApiKey.EXPIRE_DELEGATION_TOKEN,
            ApiKey.DESCRIBE_DELEGATION_TOKEN,
            ApiKey.ALTER_CLIENT_QUOTAS,
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
            access = FakeAccess(cluster(Operation.DESCRIBE))
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
                access=FakeAccess(*map(cluster, granted)),
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
        access = FakeAccess(cluster(Operation.CREATE), topic(Operation.CREATE, "orders"))
        response = self.forward(node, access)
        assert (response.error_code, response.response_data) == (DENIED, None)
        response = node.request(ApiKey.ENVELOPE, 0, access=access, request_data=b"", client_host_address=b"")
        assert response.error_code is DENIED
        assert access.logged_denials() == [cluster(Operation.CLUSTER_ACTION)] * 2
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
        response = self.forward(node, FakeAccess(cluster(Operation.CLUSTER_ACTION)), host=address)
        assert clients == [(Principal("User", "alice"), host)]
        assert response.error_code is ErrorCode.none
        inner = read_forwarded_response(schema(ApiKey.CREATE_TOPICS, 7), response.response_data, correlation_id=5)
        assert [one.error_code for one in inner.topics] == [TOPIC_DENIED]

    def test_client_needs_no_cluster_action(self, node: FakeControllerNode) -> None:
        node.access = FakeAccess(topic(Operation.CREATE, "orders"))
        node.controller.run = AcceptingCommands().run
        response = self.forward(node, FakeAccess(cluster(Operation.CLUSTER_ACTION)))
        inner = read_forwarded_response(schema(ApiKey.CREATE_TOPICS, 7), response.response_data, correlation_id=5)
        assert [one.error_code for one in inner.topics] == [ErrorCode.topic_already_exists]

    def test_controller_that_is_not_active_denies_nothing(self, node: FakeControllerNode) -> None:
        """The broker then finds the active controller, which decides."""
        node.access = FakeAccess()
        response = self.forward(node, UNRESTRICTED)
        assert response.error_code is ErrorCode.not_controller


@pytest.fixture
def metadata() -> Cluster:
    found = Cluster(brokers=1)
    found.create("orders", 1, 1)
    found.create("payments", 1, 1)
    return found


@pytest.fixture
def active(node: FakeControllerNode, metadata: Cluster) -> FakeControllerNode:
    """A node with the active controller of a cluster with two topics."""
    node.clock.now = metadata.now
    node.controller.run = lambda command: metadata.take(command(metadata.controller))
    return node


class TestCreateTopics:
    def create(self, node: FakeControllerNode, access: Access, *names: str, version: int = 7, **fields: Any) -> Any:
        topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
        response = node.request(ApiKey.CREATE_TOPICS, version, access=access, topics=topics, **fields)
        return {one.name: one for one in response.topics}

    @pytest.mark.parametrize("version", versions_of(ApiKey.CREATE_TOPICS))
    def test_create_on_the_cluster_allows_every_topic(self, active: FakeControllerNode, version: int) -> None:
        access = FakeAccess(cluster(Operation.CREATE))
        created = self.create(active, access, "a", "b", version=version)
        assert [one.error_code for one in created.values()] == [ErrorCode.none] * 2
        assert access.logged_denials() == []

    @pytest.mark.parametrize("version", versions_of(ApiKey.CREATE_TOPICS))
    @pytest.mark.parametrize("validate_only", [False, True])
    def test_create_on_a_topic_allows_that_topic(
        self, active: FakeControllerNode, metadata: Cluster, version: int, validate_only: bool
    ) -> None:
        access = FakeAccess(topic(Operation.CREATE, "a"))
        created = self.create(active, access, "b", "a", version=version, validate_only=validate_only)
        assert {name: (one.error_code, one.error_message) for name, one in created.items()} == {
            "a": (ErrorCode.none, None),
            "b": (TOPIC_DENIED, "Authorization failed."),
        }
        assert ("a" in metadata.image.topics_by_name) is not validate_only
        assert "b" not in metadata.image.topics_by_name
        # Not the check of the cluster, since the topics may be allowed one by one.
        assert access.logged_denials() == [topic(Operation.CREATE, "b")]

    def test_denial_does_not_tell_whether_a_topic_exists(self, active: FakeControllerNode) -> None:
        created = self.create(active, FakeAccess(), "orders", "new", "a/b")
        assert {one.error_code for one in created.values()} == {TOPIC_DENIED}
        assert {(one.topic_id, one.num_partitions, one.configs) for one in created.values()} == {(None, -1, ())}

    def test_duplicates_and_the_metadata_log_are_invalid_without_a_check(self, active: FakeControllerNode) -> None:
        access = FakeAccess()
        created = self.create(active, access, "a", "a", "__cluster_metadata")
        assert {one.error_code for one in created.values()} == {ErrorCode.invalid_request}
        assert access.requests == [(*cluster(Operation.CREATE), False)]

    @pytest.mark.parametrize("version", [5, 6, 7])
    def test_configs_need_describe_configs_on_the_topic(self, active: FakeControllerNode, version: int) -> None:
        # CREATE on the cluster does not include it.
        access = FakeAccess(
            cluster(Operation.CREATE), cluster(Operation.DESCRIBE_CONFIGS), topic(Operation.DESCRIBE_CONFIGS, "a")
        )
        created = self.create(active, access, "a", "b", version=version)
        assert [created[name].error_code for name in "ab"] == [ErrorCode.none] * 2
        assert [created[name].topic_config_error_code for name in "ab"] == [ErrorCode.none, TOPIC_DENIED]
        assert [created[name].num_partitions for name in "ab"] == [1, -1]
        assert [created[name].replication_factor for name in "ab"] == [1, -1]
        assert [bool(created[name].configs) for name in "ab"] == [True, False]
        assert version < 7 or all(created[name].topic_id for name in "ab")
        assert access.logged_denials() == []


class TestCreatePartitions:
    @pytest.mark.parametrize("version", versions_of(ApiKey.CREATE_PARTITIONS))
    def test_alter_on_the_topic_is_needed(self, active: FakeControllerNode, metadata: Cluster, version: int) -> None:
        access = FakeAccess(topic(Operation.ALTER, "orders"), cluster(Operation.ALTER))
        topics = [{"name": name, "count": 2} for name in ("gone", "orders", "payments", "twice", "twice")]
        response = active.request(ApiKey.CREATE_PARTITIONS, version, access=access, topics=topics)
        assert {one.name: (one.error_code, one.error_message) for one in response.results} == {
            "orders": (ErrorCode.none, None),
            "payments": (TOPIC_DENIED, None),
            "gone": (TOPIC_DENIED, None),
            "twice": (ErrorCode.invalid_request, "Duplicate topic name."),
        }
        assert access.logged_denials() == [topic(Operation.ALTER, "gone"), topic(Operation.ALTER, "payments")]
        assert len(metadata.image.topics_by_name["payments"].partitions) == 1


class TestDeleteTopics:
    def delete(self, node: FakeControllerNode, access: Access, *topics: str | UUID, version: int = 6) -> Any:
        if version < 6:
            response = node.request(ApiKey.DELETE_TOPICS, version, access=access, topic_names=topics)
        else:
            wanted = [
                {"name": None, "topic_id": one} if isinstance(one, UUID) else {"name": one, "topic_id": None}
                for one in topics
            ]
            response = node.request(ApiKey.DELETE_TOPICS, version, access=access, topics=wanted)
        return [(one.name, getattr(one, "topic_id", None), one.error_code) for one in response.responses]

    @pytest.mark.parametrize("version", versions_of(ApiKey.DELETE_TOPICS))
    def test_delete_on_the_cluster_allows_every_topic(self, active: FakeControllerNode, version: int) -> None:
        access = FakeAccess(cluster(Operation.DELETE))
        results = self.delete(active, access, "orders", "gone", version=version)
        assert [(name, code) for name, _, code in results] == [
            ("gone", ErrorCode.unknown_topic_or_partition),
            ("orders", ErrorCode.none),
        ]
        assert [one.operation for one in access.requests] == [Operation.DELETE]

    @pytest.mark.parametrize("version", versions_of(ApiKey.DELETE_TOPICS))
    def test_name_that_may_not_be_described_is_hidden(self, active: FakeControllerNode, version: int) -> None:
        access = FakeAccess(topic(Operation.DELETE, "orders"), topic(Operation.DELETE, "gone"))
        assert self.delete(active, access, "orders", "gone", version=version) == [
            ("orders", None, TOPIC_DENIED),
            ("gone", None, TOPIC_DENIED),
        ]

    @pytest.mark.parametrize("version", versions_of(ApiKey.DELETE_TOPICS))
    def test_name_that_may_be_described_needs_delete(
        self, active: FakeControllerNode, metadata: Cluster, version: int
    ) -> None:
        access = FakeAccess(
            topic(Operation.DESCRIBE, "orders"),
            topic(Operation.DESCRIBE, "gone"),
            topic(Operation.DESCRIBE, "payments"),
            topic(Operation.DELETE, "payments"),
        )
        results = self.delete(active, access, "orders", "gone", "payments", version=version)
        assert [(name, code) for name, _, code in results] == [
            ("orders", TOPIC_DENIED),
            ("gone", ErrorCode.unknown_topic_or_partition),
            ("payments", ErrorCode.none),
        ]
        assert results[0][1] is None
        assert list(metadata.image.topics_by_name) == ["orders"]

    def test_id_needs_delete_and_shows_the_name_to_whom_may_describe(
        self, active: FakeControllerNode, metadata: Cluster
    ) -> None:
        orders, payments = (metadata.image.topics_by_name[name].id for name in ("orders", "payments"))
        unknown = UUID(int=99)
        assert self.delete(active, FakeAccess(topic(Operation.DESCRIBE, "orders")), orders, payments, unknown) == [
            ("orders", orders, TOPIC_DENIED),
            (None, payments, TOPIC_DENIED),
            (None, unknown, ErrorCode.unknown_topic_id),
        ]
        assert self.delete(active, FakeAccess(topic(Operation.DELETE, "orders")), orders) == [
            ("orders", orders, ErrorCode.none)
        ]

    def test_name_and_id_of_one_topic_reveal_nothing(self, active: FakeControllerNode, metadata: Cluster) -> None:
        orders = metadata.image.topics_by_name["orders"].id
        assert self.delete(active, FakeAccess(), orders, "orders") == [
            (None, orders, TOPIC_DENIED),
            ("orders", None, TOPIC_DENIED),
        ]

    def test_disabled_deletion_comes_first(self, node: FakeControllerNode) -> None:
        disabled = Cluster(delete_topic_enable="false")
        node.controller.run = lambda command: disabled.take(command(disabled.controller))
        assert self.delete(node, FakeAccess(), "orders") == [("orders", None, ErrorCode.topic_deletion_disabled)]

    def test_message_of_a_denial(self, active: FakeControllerNode) -> None:
        response = active.request(
            ApiKey.DELETE_TOPICS, 6, access=FakeAccess(), topics=[{"name": "orders", "topic_id": None}]
        )
        assert response.responses[0].error_message == "Topic authorization failed."


CONFIG_RESOURCES = {
    "broker": (RESOURCE_BROKER, "1", ResourceType.CLUSTER, CLUSTER_NAME, DENIED),
    "client-metrics": (RESOURCE_CLIENT_METRICS, "m", ResourceType.CLUSTER, CLUSTER_NAME, DENIED),
    "topic": (RESOURCE_TOPIC, "orders", ResourceType.TOPIC, "orders", TOPIC_DENIED),
    "group": (RESOURCE_GROUP, "readers", ResourceType.GROUP, "readers", ErrorCode.group_authorization_failed),
}
MESSAGES = {
    DENIED: DEFAULT_MESSAGE,
    TOPIC_DENIED: "Topic authorization failed.",
    ErrorCode.group_authorization_failed: "Group authorization failed.",
}


class TestAlterConfigs:
    @pytest.mark.parametrize("api_key", [ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS])
    @pytest.mark.parametrize("resource", CONFIG_RESOURCES)
    def test_alter_configs_on_the_resource_is_needed(
        self, node: FakeControllerNode, api_key: ApiKey, resource: str
    ) -> None:
        kind, name, resource_type, resource_name, code = CONFIG_RESOURCES[resource]
        commands = AcceptingCommands()
        node.controller.run = commands.run
        grant = (Operation.ALTER_CONFIGS, resource_type, resource_name)
        for version in versions_of(api_key):
            for access in (FakeAccess(grant), FakeAccess((Operation.ALTER, resource_type, resource_name))):
                commands.resources.clear()
                resources = [{"resource_type": kind, "resource_name": name}]
                response = node.request(api_key, version, access=access, resources=resources)
                (result,) = response.responses
                is_allowed = grant in access.allowed
                assert result.error_code is (ErrorCode.none if is_allowed else code)
                assert result.error_message == (None if is_allowed else MESSAGES[code])
                assert (result.resource_type, result.resource_name) == (kind, name)
                assert commands.resources == ([name] if is_allowed else [])
                assert access.logged_denials() == ([] if is_allowed else [grant])

    @pytest.mark.parametrize("api_key", [ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS])
    def test_allowed_resources_of_a_request_are_altered(self, node: FakeControllerNode, api_key: ApiKey) -> None:
        node.controller.run = AcceptingCommands().run
        access = FakeAccess(topic(Operation.ALTER_CONFIGS, "orders"))
        resources = [{"resource_type": RESOURCE_TOPIC, "resource_name": name} for name in ("payments", "orders")]
        response = node.request(api_key, 1, access=access, resources=resources)
        assert [(one.resource_name, one.error_code) for one in response.responses] == [
            ("payments", TOPIC_DENIED),
            ("orders", ErrorCode.none),
        ]

    @pytest.mark.parametrize("api_key", [ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS])
    def test_partly_denied_request_to_an_inactive_controller_is_not_controller(
        self, node: FakeControllerNode, api_key: ApiKey
    ) -> None:
        """Otherwise the broker that forwarded it would not retry."""
        access = FakeAccess(topic(Operation.ALTER_CONFIGS, "orders"))
        resources = [{"resource_type": RESOURCE_TOPIC, "resource_name": name} for name in ("payments", "orders")]
        response = node.request(api_key, 1, access=access, resources=resources)
        assert [one.error_code for one in response.responses] == [ErrorCode.not_controller] * 2

    def test_log_levels_of_a_controller_need_cluster_action(self, node: FakeControllerNode) -> None:
        config = {"name": "root", "config_operation": ConfigOperation.SET, "value": "INFO"}

        def alter(*granted: Operation, name: str = "1", operation: int = ConfigOperation.SET) -> tuple[ErrorCode, str]:
            resource = {
                "resource_type": RESOURCE_BROKER_LOGGER,
                "resource_name": name,
                "configs": [config | {"config_operation": operation}],
            }
            access = FakeAccess(*map(cluster, granted))
            response = node.request(
                ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, access=access, validate_only=True, resources=[resource]
            )
            (result,) = response.responses
            return result.error_code, result.error_message

        assert alter(Operation.CLUSTER_ACTION) == (ErrorCode.none, None)
        assert alter(Operation.ALTER_CONFIGS) == (DENIED, DEFAULT_MESSAGE)
        # Before the request is validated.
        assert alter(name="other") == alter(operation=9) == (DENIED, DEFAULT_MESSAGE)


class TestDescribeConfigs:
    @pytest.mark.parametrize("resource", [*CONFIG_RESOURCES, "logger"])
    @pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_CONFIGS))
    def test_describe_configs_on_the_resource_is_needed(
        self, node: FakeControllerNode, metadata: Cluster, resource: str, version: int
    ) -> None:
        node.image = metadata.image
        logger = (RESOURCE_BROKER_LOGGER, "1", ResourceType.CLUSTER, CLUSTER_NAME, DENIED)
        kind, name, resource_type, resource_name, code = CONFIG_RESOURCES.get(resource, logger)
        grant = (Operation.DESCRIBE_CONFIGS, resource_type, resource_name)
        for access in (FakeAccess(grant), FakeAccess((Operation.DESCRIBE, resource_type, resource_name))):
            response = node.request(
                ApiKey.DESCRIBE_CONFIGS,
                version,
                access=access,
                resources=[{"resource_type": kind, "resource_name": name, "configuration_keys": None}],
            )
            (result,) = response.results
            is_allowed = grant in access.allowed
            assert result.error_code is (ErrorCode.none if is_allowed else code)
            assert result.error_message == ("" if is_allowed else MESSAGES[code])
            assert bool(result.configs) is is_allowed
            assert access.logged_denials() == ([] if is_allowed else [grant])

    def test_denied_resources_follow_the_others_and_existence_is_hidden(
        self, node: FakeControllerNode, metadata: Cluster
    ) -> None:
        node.image = metadata.image
        access = FakeAccess(topic(Operation.DESCRIBE_CONFIGS, "gone"), topic(Operation.DESCRIBE_CONFIGS, "orders"))
        names = ("payments", "gone", "missing", "a/b", "orders")
        resources = [
            {"resource_type": RESOURCE_TOPIC, "resource_name": name, "configuration_keys": None} for name in names
        ]
        response = node.request(ApiKey.DESCRIBE_CONFIGS, 4, access=access, resources=resources)
        assert [(one.resource_name, one.error_code) for one in response.results] == [
            ("gone", ErrorCode.unknown_topic_or_partition),
            ("orders", ErrorCode.none),
            ("payments", TOPIC_DENIED),
            ("missing", TOPIC_DENIED),
            ("a/b", TOPIC_DENIED),
        ]

    def test_unknown_types_make_the_request_invalid_without_a_check(self, node: FakeControllerNode) -> None:
        access = FakeAccess()
        resources = [{"resource_type": kind, "resource_name": "x"} for kind in (RESOURCE_TOPIC, 99)]
        response = node.request(ApiKey.DESCRIBE_CONFIGS, 4, access=access, resources=resources)
        assert {one.error_code for one in response.results} == {ErrorCode.invalid_request}
        assert access.requests == []

"""The APIs on controller listeners. Error responses equal those of Apache Kafka 4.3.1."""

from typing import Any
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.metadata.image import ClusterImage, ControllerImage
from odradek.core.metadata.persistent_map import PersistentMap
from odradek.core.metadata.records import Endpoint
from odradek.server.context import NoConnection
from odradek.wire.apis import CONTROLLER_APIS, load_handler
from odradek.wire.schemas import schema
from tests.unit.quorum.fake_controller_node import (
    CLUSTER_ID,
    LISTENER,
    NODE_ID,
    AcceptingCommands,
    FakeControllerNode,
    fail_with,
)

CREATE_TOPICS, DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 19, 32, 33, 44
DESCRIBE_CLUSTER, HEARTBEAT = 60, 63
TOPIC, BROKER, LOGGER = 2, 4, 8

# As Apache Kafka 4.3.1 advertises them on its controller listener.
KAFKA = {
    1: (4, 18), 17: (0, 1), 18: (0, 4), 19: (2, 7), 20: (1, 6), 29: (1, 3), 30: (1, 3), 31: (1, 3), 32: (1, 4),
    33: (0, 2), 36: (0, 2), 37: (0, 3), 38: (1, 3), 39: (1, 2), 40: (1, 2), 41: (1, 3), 43: (0, 2), 44: (0, 1),
    45: (0, 1), 46: (0, 0), 49: (0, 1), 50: (0, 0), 51: (0, 0), 52: (0, 2), 53: (0, 1), 54: (0, 1), 55: (0, 2),
    56: (2, 3), 57: (0, 2), 58: (0, 0), 59: (0, 1), 60: (0, 2), 62: (0, 4), 63: (0, 2), 64: (0, 0), 67: (0, 0),
    70: (0, 0), 73: (0, 0), 80: (0, 1), 81: (0, 0), 82: (0, 0),
}  # fmt: skip
# Kafka advertises them there, and answers them with UNKNOWN_SERVER_ERROR.
NOT_SERVED = {41, 50}


@pytest.fixture
def node() -> FakeControllerNode:
    return FakeControllerNode()


def test_versions_are_those_of_kafka() -> None:
    assert {api.key: (api.low, api.high) for api in CONTROLLER_APIS.values()} == {
        key: versions for key, versions in KAFKA.items() if key not in NOT_SERVED
    }


@pytest.mark.parametrize("key", CONTROLLER_APIS)
def test_every_version_has_a_schema_and_a_handler(key: int) -> None:
    api = CONTROLLER_APIS[key]
    assert callable(load_handler(api).handle)
    for version in range(api.low, api.high + 1):
        schema(key, version)


@pytest.mark.parametrize("version", range(5))
def test_api_versions_lists_the_controller_apis(node: FakeControllerNode, version: int) -> None:
    response = node.request(18, version, client_software_name="test", client_software_version="1")
    assert {one.api_key: (one.min_version, one.max_version) for one in response.api_keys} == {
        api.key: (api.low, api.high) for api in CONTROLLER_APIS.values()
    }


def test_commands_run_on_the_controller_of_this_node(node: FakeControllerNode) -> None:
    response = node.request(CREATE_TOPICS, 7, topics=[{"name": "orders"}])
    assert response.topics[0].error_code is ErrorCode.not_controller
    assert node.controller.commands == 1


def test_raft_requests_go_to_the_quorum(node: FakeControllerNode) -> None:
    messages = schema(52, 2)
    node.quorum.response = messages.new(
        "VoteResponse", error_code=ErrorCode.inconsistent_cluster_id, topics=(), node_endpoints=()
    )
    assert node.request(52, 2, cluster_id="other").error_code is ErrorCode.inconsistent_cluster_id
    assert node.quorum.requests == [(52, 2, LISTENER)]
    assert not node.controller.commands


# Heartbeats


def test_connection_of_an_accepted_heartbeat_is_reported(node: FakeControllerNode) -> None:
    connection = NoConnection()
    node.controller.run = AcceptingCommands().run
    assert node.request(HEARTBEAT, 1, broker_id=3, broker_epoch=7, connection=connection).is_caught_up
    assert node.heartbeats == [(3, 7, connection)]


def test_a_heartbeat_of_the_broker_in_this_process_has_no_connection(node: FakeControllerNode) -> None:
    node.controller.run = AcceptingCommands().run
    assert node.request(HEARTBEAT, 1, broker_id=1, broker_epoch=7).is_caught_up
    assert not node.heartbeats


@pytest.mark.parametrize(
    "code", [ErrorCode.not_controller, ErrorCode.stale_broker_epoch, ErrorCode.broker_id_not_registered]
)
def test_connection_of_a_rejected_heartbeat_is_not_reported(node: FakeControllerNode, code: ErrorCode) -> None:
    node.controller.run = fail_with(code)
    response = node.request(HEARTBEAT, 1, broker_id=3, broker_epoch=7, connection=NoConnection())
    assert response.error_code is code
    assert not node.heartbeats


# DescribeCluster


def controller(node_id: int, *listeners: str) -> ControllerImage:
    endpoints = tuple(
        Endpoint(name=name, host=f"host-{node_id}", port=9093 + position, security_protocol=0)
        for position, name in enumerate(listeners)
    )
    return ControllerImage(node_id, UUID(int=node_id), endpoints, ())


def test_describe_cluster_lists_endpoints_of_the_listener(node: FakeControllerNode) -> None:
    node.image = ClusterImage(
        controllers={1: controller(1, LISTENER), 2: controller(2, "OTHER", LISTENER), 3: controller(3, "OTHER")}
    )
    node.quorum.leader_id = 2
    response = node.request(DESCRIBE_CLUSTER, 2, endpoint_type=2)
    assert (response.error_code, response.endpoint_type) == (ErrorCode.none, 2)
    assert (response.cluster_id, response.controller_id) == (CLUSTER_ID, 2)
    assert [(one.broker_id, one.host, one.port, one.rack, one.is_fenced) for one in response.brokers] == [
        (1, "host-1", 9093, None, False),
        (2, "host-2", 9094, None, False),
    ]
    assert response.cluster_authorized_operations == -(2**31)
    response = node.request(DESCRIBE_CLUSTER, 2, endpoint_type=2, include_cluster_authorized_operations=True)
    assert response.cluster_authorized_operations == 8096


@pytest.mark.parametrize("leader_id", [-1, 3])
def test_describe_cluster_omits_an_unlisted_leader(node: FakeControllerNode, leader_id: int) -> None:
    node.image = ClusterImage(controllers={1: controller(1, LISTENER), 3: controller(3, "OTHER")})
    node.quorum.leader_id = leader_id
    assert node.request(DESCRIBE_CLUSTER, 2, endpoint_type=2).controller_id == -1


@pytest.mark.parametrize(
    ("version", "endpoint_type", "code", "message"),
    [
        (2, 1, ErrorCode.mismatched_endpoint_type, "of type CONTROLLER, but we wanted an endpoint of type BROKER"),
        (1, 1, ErrorCode.mismatched_endpoint_type, "of type CONTROLLER, but we wanted an endpoint of type BROKER"),
        (0, None, ErrorCode.invalid_request, "of type CONTROLLER, but we wanted an endpoint of type BROKER"),
        (2, 0, ErrorCode.unsupported_endpoint_type, "Unsupported endpoint type 0"),
        (2, 3, ErrorCode.unsupported_endpoint_type, "Unsupported endpoint type 3"),
    ],
)
def test_describe_cluster_rejects_other_endpoint_types(
    node: FakeControllerNode, version: int, endpoint_type: int | None, code: ErrorCode, message: str
) -> None:
    response = node.request(DESCRIBE_CLUSTER, version, endpoint_type=endpoint_type)
    assert response.error_code is code
    assert response.error_message.endswith(message)
    assert (response.cluster_id, response.controller_id, response.brokers) == ("", -1, ())


# DescribeConfigs


def described(node: FakeControllerNode, name: str) -> Any:
    resource = {"resource_type": BROKER, "resource_name": name, "configuration_keys": ["log.cleaner.threads"]}
    (result,) = node.request(DESCRIBE_CONFIGS, 4, resources=[resource]).results
    return [(one.value, one.config_source) for one in result.configs] or result.error_message


def test_describe_configs_includes_dynamic_configs(node: FakeControllerNode) -> None:
    default, dynamic_of_all, dynamic = 5, 3, 2
    assert described(node, "1") == [("1", default)]
    node.image = ClusterImage(configs=PersistentMap([((BROKER, ""), {"log.cleaner.threads": "2"})]))
    assert described(node, "1") == [("2", dynamic_of_all)]
    assert described(node, "") == [("2", dynamic_of_all)]
    node.image = ClusterImage(configs=PersistentMap([((BROKER, "1"), {"log.cleaner.threads": "3"})]))
    assert described(node, "1") == [("3", dynamic)]
    assert described(node, "2") == "Unexpected broker id, expected 1 or empty string, but received 2"


# AlterConfigs and IncrementalAlterConfigs


def resource(kind: int, name: str) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name, "configs": [{"name": "some.logger", "value": "1"}]}


def alter(node: FakeControllerNode, api_key: int, version: int, *resources: dict[str, Any]) -> list[Any]:
    response = node.request(api_key, version, resources=resources)
    return [(one.resource_type, one.resource_name, one.error_code, one.error_message) for one in response.responses]


@pytest.mark.parametrize("api_key", [ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS])
@pytest.mark.parametrize("version", [0, 1])
def test_invalid_resources_are_rejected_without_the_controller(
    node: FakeControllerNode, api_key: int, version: int
) -> None:
    commands = AcceptingCommands()
    node.controller.run = commands.run
    assert alter(
        node, api_key, version, resource(TOPIC, "a"), resource(99, "x"), resource(BROKER, "1"), resource(TOPIC, "a")
    ) == [
        (TOPIC, "a", ErrorCode.invalid_request, "Duplicate resource."),
        (99, "x", ErrorCode.unsupported_version, "Unknown resource type 99."),
        (BROKER, "1", ErrorCode.none, None),
    ]
    assert commands.resources == ["1"]


@pytest.mark.parametrize("api_key", [ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS])
def test_request_without_valid_resources_runs_no_command(node: FakeControllerNode, api_key: int) -> None:
    assert alter(node, api_key, 1) == []
    assert alter(node, api_key, 1, resource(0, "x"))[0][2] is ErrorCode.unsupported_version
    assert not node.controller.commands


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        (str(NODE_ID), ErrorCode.invalid_config, "Logger some.logger does not exist!"),
        ("5", ErrorCode.invalid_request, "Unexpected node id. Expected 1, but received 5"),
        ("x", ErrorCode.invalid_request, "Node id must be an integer, but it is: x"),
    ],
)
def test_loggers_of_this_node_are_altered_locally(
    node: FakeControllerNode, name: str, code: ErrorCode, message: str
) -> None:
    (result,) = alter(node, INCREMENTAL_ALTER_CONFIGS, 1, resource(LOGGER, name))
    assert result == (LOGGER, name, code, message)
    (result,) = alter(node, ALTER_CONFIGS, 1, resource(LOGGER, name))
    assert result == (LOGGER, name, ErrorCode.invalid_request, "Unexpected resource type BROKER_LOGGER.")
    assert not node.controller.commands

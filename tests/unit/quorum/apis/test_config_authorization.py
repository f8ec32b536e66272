"""What controllers authorize for requests that describe or alter configs, as Apache Kafka 4.3.1 does."""

import pytest

from odradek.base.errors import ErrorCode
from odradek.config.alteration import Operation as ConfigOperation
from odradek.core.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
)
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType
from odradek.wire.apis import ApiKey
from tests.unit.core.controller.cluster import Cluster
from tests.unit.fake_access import FakeAccess, on_cluster, on_topic
from tests.unit.quorum.apis.controller_versions import versions_of
from tests.unit.quorum.fake_controller_node import AcceptingCommands, FakeControllerNode

DENIED = ErrorCode.cluster_authorization_failed
TOPIC_DENIED = ErrorCode.topic_authorization_failed
RESOURCE_BROKER_LOGGER = 8
DEFAULT_MESSAGE = "Cluster authorization failed."


@pytest.fixture
def node() -> FakeControllerNode:
    return FakeControllerNode()


@pytest.fixture
def metadata() -> Cluster:
    found = Cluster(brokers=1)
    found.create("orders", 1, 1)
    found.create("payments", 1, 1)
    return found


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
        access = FakeAccess(on_topic(Operation.ALTER_CONFIGS, "orders"))
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
        access = FakeAccess(on_topic(Operation.ALTER_CONFIGS, "orders"))
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
            access = FakeAccess(*map(on_cluster, granted))
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
        access = FakeAccess(
            on_topic(Operation.DESCRIBE_CONFIGS, "gone"), on_topic(Operation.DESCRIBE_CONFIGS, "orders")
        )
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

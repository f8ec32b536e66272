"""What brokers authorize for the administration of configs, log dirs and the cluster."""

from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.config.alteration import Operation as ConfigOperation
from odradek.core.metadata.image import RESOURCE_BROKER, RESOURCE_GROUP, RESOURCE_TOPIC
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType
from odradek.wire.apis import BROKER_APIS, ApiKey
from tests.unit.broker.fake_broker import NODE_ID, FakeBroker
from tests.unit.fake_access import FakeAccess, Grant

DENIED = ErrorCode.cluster_authorization_failed
RESOURCE_BROKER_LOGGER = 8
NOT_REQUESTED = -(2**31)


def cluster(operation: Operation) -> Grant:
    return (operation, ResourceType.CLUSTER, CLUSTER_NAME)


def restrict(broker: FakeBroker, *granted: Grant) -> FakeAccess:
    broker.access = access = FakeAccess(*granted)
    return access


def restrict_to_others(broker: FakeBroker, needed: Operation) -> FakeAccess:
    """Grants every operation on the cluster but one."""
    return restrict(broker, *(cluster(one) for one in Operation if one is not needed))


def versions_of(api_key: ApiKey) -> range:
    api = BROKER_APIS[api_key]
    return range(api.low, api.high + 1)


class TestLogDirs:
    @pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_LOG_DIRS))
    def test_describe_on_the_cluster_is_needed(self, broker: FakeBroker, version: int) -> None:
        broker.add_topic("orders")
        access = restrict_to_others(broker, Operation.DESCRIBE)
        response = broker.request(ApiKey.DESCRIBE_LOG_DIRS, version, topics=None)
        assert response.results == ()
        assert version < 3 or response.error_code is DENIED
        assert access.logged_denials() == [cluster(Operation.DESCRIBE)]
        access = restrict(broker, cluster(Operation.DESCRIBE))
        response = broker.request(ApiKey.DESCRIBE_LOG_DIRS, version, topics=None)
        assert any(one.topics for one in response.results)
        # No topic is checked.
        assert [one.resource_type for one in access.requests] == [ResourceType.CLUSTER]

    @pytest.mark.parametrize("version", versions_of(ApiKey.ALTER_REPLICA_LOG_DIRS))
    def test_alter_on_the_cluster_is_needed(self, broker: FakeBroker, version: int) -> None:
        broker.add_topic("orders")
        dirs = [{"path": broker.directories[1], "topics": [{"name": "orders", "partitions": [0, 3]}]}]
        access = restrict_to_others(broker, Operation.ALTER)
        response = broker.request(ApiKey.ALTER_REPLICA_LOG_DIRS, version, dirs=dirs)
        ((first, second),) = (one.partitions for one in response.results)
        assert [(one.partition_index, one.error_code) for one in (first, second)] == [(0, DENIED), (3, DENIED)]
        assert access.logged_denials() == [cluster(Operation.ALTER)]
        assert broker.log_dir_moves.destinations == {}
        restrict(broker, cluster(Operation.ALTER))
        response = broker.request(ApiKey.ALTER_REPLICA_LOG_DIRS, version, dirs=dirs)
        assert response.results[0].partitions[0].error_code is ErrorCode.none


class TestDescribeCluster:
    @pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_CLUSTER))
    def test_nodes_need_no_operation(self, broker: FakeBroker, version: int) -> None:
        access = restrict(broker)
        response = broker.request(ApiKey.DESCRIBE_CLUSTER, version, endpoint_type=1)
        assert response.error_code is ErrorCode.none
        assert [one.broker_id for one in response.brokers] == [NODE_ID]
        assert response.cluster_authorized_operations == NOT_REQUESTED
        assert access.requests == []

    @pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_CLUSTER))
    def test_authorized_operations_need_describe(self, broker: FakeBroker, version: int) -> None:
        def operations(*granted: Operation) -> tuple[int, list[Grant]]:
            access = restrict(broker, *map(cluster, granted))
            response = broker.request(
                ApiKey.DESCRIBE_CLUSTER, version, endpoint_type=1, include_cluster_authorized_operations=True
            )
            return response.cluster_authorized_operations, access.logged_denials()

        assert operations(Operation.ALTER) == (0, [cluster(Operation.DESCRIBE)])
        assert operations(Operation.ALTER, Operation.DESCRIBE) == (1 << 7 | 1 << 8, [])


class TestListConfigResources:
    @pytest.mark.parametrize("version", versions_of(ApiKey.LIST_CONFIG_RESOURCES))
    def test_describe_configs_on_the_cluster_is_needed(self, broker: FakeBroker, version: int) -> None:
        broker.add_topic("orders")
        access = restrict_to_others(broker, Operation.DESCRIBE_CONFIGS)
        for kinds in ([], [RESOURCE_TOPIC], [99]):
            response = broker.request(ApiKey.LIST_CONFIG_RESOURCES, version, resource_types=kinds)
            assert (response.error_code, response.config_resources) == (DENIED, ())
        assert access.logged_denials() == [cluster(Operation.DESCRIBE_CONFIGS)] * 3
        restrict(broker, cluster(Operation.DESCRIBE_CONFIGS))
        response = broker.request(ApiKey.LIST_CONFIG_RESOURCES, version, resource_types=[])
        assert response.error_code is ErrorCode.none
        # Not checked one by one.
        assert version == 0 or "orders" in [one.resource_name for one in response.config_resources]


class TestDescribeConfigs:
    @pytest.mark.parametrize(
        ("kind", "name", "needed", "code"),
        [
            (RESOURCE_TOPIC, "orders", ResourceType.TOPIC, ErrorCode.topic_authorization_failed),
            (RESOURCE_GROUP, "readers", ResourceType.GROUP, ErrorCode.group_authorization_failed),
            (RESOURCE_BROKER, str(NODE_ID), ResourceType.CLUSTER, DENIED),
            (RESOURCE_BROKER_LOGGER, str(NODE_ID), ResourceType.CLUSTER, DENIED),
        ],
    )
    def test_describe_configs_on_the_resource_is_needed(
        self, broker: FakeBroker, kind: int, name: str, needed: ResourceType, code: ErrorCode
    ) -> None:
        broker.add_topic("orders")
        resources = [{"resource_type": kind, "resource_name": name, "configuration_keys": None}]
        grant = (Operation.DESCRIBE_CONFIGS, needed, CLUSTER_NAME if needed is ResourceType.CLUSTER else name)
        for granted, expected in (((), code), ((grant,), ErrorCode.none)):
            restrict(broker, *granted)
            response = broker.request(ApiKey.DESCRIBE_CONFIGS, 4, resources=resources)
            assert [one.error_code for one in response.results] == [expected]


class TestAlterConfigs:
    def change_level(
        self, broker: FakeBroker, *configs: dict[str, Any], name: str = str(NODE_ID)
    ) -> tuple[ErrorCode, str | None]:
        resource = {"resource_type": RESOURCE_BROKER_LOGGER, "resource_name": name, "configs": configs}
        response = broker.request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, validate_only=True, resources=[resource])
        (result,) = response.responses
        return result.error_code, result.error_message

    def test_log_levels_need_alter_configs_on_the_cluster(self, broker: FakeBroker) -> None:
        level = {"name": "root", "config_operation": ConfigOperation.SET, "value": "INFO"}
        restrict(broker, cluster(Operation.ALTER_CONFIGS))
        assert self.change_level(broker, level) == (ErrorCode.none, None)
        access = restrict_to_others(broker, Operation.ALTER_CONFIGS)
        assert self.change_level(broker, level) == (DENIED, None)
        assert access.logged_denials() == [cluster(Operation.ALTER_CONFIGS)]

    def test_log_levels_are_denied_before_they_are_validated(self, broker: FakeBroker) -> None:
        level = {"name": "root", "config_operation": ConfigOperation.SET, "value": "INFO"}
        restrict(broker)
        assert self.change_level(broker, level, name="other") == (DENIED, None)
        assert self.change_level(broker, level | {"config_operation": 9}) == (DENIED, None)
        assert self.change_level(broker, level | {"name": "no-such-logger"}) == (DENIED, None)
        # Except for their form.
        assert self.change_level(broker, level, level)[1] == "Error due to duplicate config keys"
        assert self.change_level(broker, level | {"value": None})[1] == "Null value not supported for : root"

    @pytest.mark.parametrize("api_key", [ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS])
    def test_other_resources_are_authorized_by_the_controller(self, broker: FakeBroker, api_key: ApiKey) -> None:
        access = restrict(broker)
        forwarded: list[str] = []

        async def forward(client: Any, key: int, version: int, request: Any) -> Any:
            forwarded.extend(one.resource_name for one in request.resources)
            from odradek.base.errors import KafkaError
            from odradek.quorum.apis.alter_config_resources import build_error_response
            from odradek.wire.schemas import schema

            return build_error_response(request, schema(key, version), KafkaError(DENIED))

        broker.controller.forward = forward  # type: ignore[method-assign]
        resources = [
            {"resource_type": RESOURCE_TOPIC, "resource_name": "orders"},
            {"resource_type": RESOURCE_BROKER, "resource_name": "other"},
        ]
        response = broker.request(api_key, 1, resources=resources)
        assert [one.error_code for one in response.responses] == [DENIED, ErrorCode.invalid_request]
        assert forwarded == ["orders"]
        assert access.requests == []

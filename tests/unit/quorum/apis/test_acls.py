"""The APIs of ACLs on a controller listener: what decides before the active controller does."""

from typing import Any
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.config.node_config import NodeConfig
from odradek.core.metadata.image import ClusterImage
from odradek.core.metadata.persistent_map import PersistentMap
from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType
from odradek.server.context import CLOSE_CONNECTION
from odradek.wire.schemas import schema
from tests import raw_wire
from tests.unit.core.security.acl_samples import acl
from tests.unit.fake_access import FakeAccess
from tests.unit.quorum.fake_controller_node import PROPERTIES, FakeControllerNode, context_of

DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 29, 30, 31
AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
CREATION = {
    "resource_type": 2,
    "resource_name": "a",
    "resource_pattern_type": 3,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
EVERY_ACL: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
REQUESTS: list[tuple[int, dict[str, Any]]] = [
    (DESCRIBE_ACLS, EVERY_ACL),
    (CREATE_ACLS, {"creations": [CREATION, CREATION]}),
    (DELETE_ACLS, {"filters": [EVERY_ACL, EVERY_ACL]}),
]


@pytest.fixture
def node() -> FakeControllerNode:
    node = FakeControllerNode()
    node.config = NodeConfig.load(PROPERTIES + AUTHORIZER, "server.properties")
    node.access = FakeAccess()
    return node


def send(node: FakeControllerNode, api_key: int, fields: dict[str, Any]) -> Any:
    messages = schema(api_key, 3)
    request = raw_wire.build(messages.request_type, fields)
    return node.handle(request, context_of(api_key, 3)._replace(access=node.access))


def errors(response: Any) -> list[tuple[ErrorCode, str]]:
    results = getattr(response, "results", None) or getattr(response, "filter_results", None) or (response,)
    return [(one.error_code, one.error_message) for one in results]


@pytest.mark.parametrize(("api_key", "fields"), REQUESTS, ids=["describe", "create", "delete"])
def test_acl_requests_need_an_operation_on_the_cluster(
    node: FakeControllerNode, api_key: int, fields: dict[str, Any]
) -> None:
    needed = Operation.DESCRIBE if api_key == DESCRIBE_ACLS else Operation.ALTER
    for code, message in errors(send(node, api_key, fields)):
        assert code is ErrorCode.cluster_authorization_failed
        assert message.endswith(f"needs {needed.name} permission.")
    assert isinstance(node.access, FakeAccess)
    assert node.access.logged_denials() == [(needed, ResourceType.CLUSTER, CLUSTER_NAME)]
    assert node.controller.commands == 0
    node.access.allow([(needed, ResourceType.CLUSTER, CLUSTER_NAME)])
    assert {code for code, _ in errors(send(node, api_key, fields))} == {
        ErrorCode.none if api_key == DESCRIBE_ACLS else ErrorCode.not_controller
    }


@pytest.mark.parametrize(("api_key", "fields"), REQUESTS, ids=["describe", "create", "delete"])
def test_acl_requests_need_an_authorizer(api_key: int, fields: dict[str, Any]) -> None:
    node = FakeControllerNode()
    assert {code for code, _ in errors(send(node, api_key, fields))} == {ErrorCode.security_disabled}
    assert node.controller.commands == 0


def test_many_acls_are_described_in_slices(node: FakeControllerNode) -> None:
    node.access = FakeAccess((Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME))
    entries: dict[UUID, AccessControlEntry] = {
        UUID(int=number): acl(f"topic-{number % 3000}", Operation(3 + number // 3000)) for number in range(6000)
    }
    node.image = ClusterImage(access_control_entries=PersistentMap(entries.items()))
    response = send(node, DESCRIBE_ACLS, EVERY_ACL)
    assert len(response.resources) == 3000
    assert all(len(resource.acls) == 2 for resource in response.resources)
    assert node.slice_turns.runs == 1


def test_unknown_codes_close_the_connection(node: FakeControllerNode) -> None:
    assert send(node, DESCRIBE_ACLS, EVERY_ACL | {"operation": 0}) is CLOSE_CONNECTION

"""ACLs over sockets, with Kafka's own `kafka-acls` and confluent-kafka. Every client is User:ANONYMOUS here."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kio.schema.errors import ErrorCode

from odradek.cli.main import run
from odradek.core.security.resources import Operation, PatternType, Permission
from odradek.core.security.resources import ResourceType as Resource
from tests.apis import Api
from tests.kafka.apache_kafka import KafkaTools
from tests.metrics_scrape import scrape
from tests.node_process import NodeProcess, free_ports
from tests.odradek_process import OdradekProcess
from tests.raw_wire import RawConnection
from tests.wire.plain_requests import until

TIMEOUT_S = 20.0
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class ObservedNode(OdradekProcess):
    http_port: int


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """The clients are super users."""
    (port,) = free_ports(1)
    properties = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS",
        "http.address": str(port),
    }
    node = ObservedNode(tmp_path_factory.mktemp("acls"), properties=properties)
    node.http_port = port
    try:
        yield node.start()
    finally:
        node.remove()


@pytest.fixture
def open_node(tmp_path: Path) -> Iterator[NodeProcess]:
    """Everybody may do everything with resources that no ACL is about."""
    properties = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    node = OdradekProcess(tmp_path, properties=properties)
    try:
        yield node.start()
    finally:
        node.remove()


def test_kafka_acls_adds_lists_and_removes(node: NodeProcess, apache_kafka_libs: Path) -> None:
    """Also what `odradek acl` added."""
    tools = KafkaTools(apache_kafka_libs, node.bootstrap)
    allowed = ("--topic", "tool-", "--resource-pattern-type", "prefixed", "--allow-principal", "User:tool")
    added = tools.acls("--add", *allowed, "--operation", "Read", "--allow-host", "10.0.0.1")
    expected = "(principal=User:tool, host=10.0.0.1, operation=READ, permissionType=ALLOW)"
    assert "Adding ACLs for resource" in added
    assert expected in added
    tools.acls("--add", "--deny-principal", "User:tool", "--operation", "All", "--cluster")
    odradek = ["--bootstrap", node.bootstrap]
    group = ["--group", "tool", "--operation", "Read", "--operation", "DescribeConfigs"]
    assert run(["acl", "add", "--allow-principal", "User:tool", "--allow-host", "::1", *group, *odradek]) == 0
    listed = tools.acls("--list", "--principal", "User:tool")
    assert "resourceType=GROUP, name=tool, patternType=LITERAL" in listed
    for operation in ("READ", "DESCRIBE_CONFIGS"):
        assert f"(principal=User:tool, host=0:0:0:0:0:0:0:1, operation={operation}, permissionType=ALLOW)" in listed
    assert "resourceType=TOPIC, name=tool-, patternType=PREFIXED" in listed
    assert expected in listed
    assert "(principal=User:tool, host=*, operation=ALL, permissionType=DENY)" in listed
    matching = tools.acls("--list", "--topic", "tool-1", "--resource-pattern-type", "match")
    assert expected in matching
    tools.acls("--remove", "--force", "--topic", "tool-", "--resource-pattern-type", "prefixed")
    assert run(["acl", "remove", "--allow-principal", "User:tool", *group, "--yes", *odradek]) == 0
    everything = tools.acls("--list")
    assert expected not in everything
    assert "name=tool, patternType=LITERAL" not in everything


def test_confluent_kafka_adds_describes_and_deletes(node: NodeProcess) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    binding = _binding("confluent", AclOperation.WRITE)
    other = _binding("confluent", AclOperation.READ, pattern_type=ResourcePatternType.PREFIXED)
    for created in admin.create_acls([binding, other]).values():
        created.result(TIMEOUT_S)
    everything = _filter(principal="User:confluent")
    assert set(admin.describe_acls(everything).result(TIMEOUT_S)) == {binding, other}
    deleted = admin.delete_acls([_filter(principal="User:confluent", operation=AclOperation.WRITE)])
    assert [set(one.result(TIMEOUT_S)) for one in deleted.values()] == [{binding}]
    assert set(admin.describe_acls(everything).result(TIMEOUT_S)) == {other}


def _binding(
    name: str, operation: AclOperation, pattern_type: ResourcePatternType = ResourcePatternType.LITERAL
) -> AclBinding:
    allow = AclPermissionType.ALLOW
    return AclBinding(ResourceType.TOPIC, name, pattern_type, "User:confluent", "*", operation, allow)


def _filter(*, principal: str | None, operation: AclOperation = AclOperation.ANY) -> AclBindingFilter:
    anything, permission = ResourcePatternType.ANY, AclPermissionType.ANY
    return AclBindingFilter(ResourceType.ANY, None, anything, principal, None, operation, permission)


def test_confluent_kafka_reports_invalid_acls(node: NodeProcess) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    allow, literal = AclPermissionType.ALLOW, ResourcePatternType.LITERAL
    invalid = AclBinding(ResourceType.TOPIC, "a", literal, "nobody", "*", AclOperation.READ, allow)
    (created,) = admin.create_acls([invalid]).values()
    with pytest.raises(KafkaException, match="no colon is present"):
        created.result(TIMEOUT_S)


def test_checks_and_acls_are_counted(node: ObservedNode) -> None:
    with RawConnection(node.port) as connection:
        connection.request(Api.CREATE_ACLS, 3, {"creations": [_deny("counted")]})
        described = connection.request(Api.DESCRIBE_ACLS, 3, _EVERY_ACL)
    found = scrape(node.http_port)
    plugins = "kafka_server_plugins_"
    labels = {"config": "authorizer.class.name", "class": "StandardAuthorizer"}
    for role in ("broker", "controller"):
        count = found(f"{plugins}acls_total_count", **labels, role=role)
        assert count == sum(len(resource.acls) for resource in described.resources)
        assert found(f"{plugins}authorization_allowed_rate_per_minute", **labels, role=role) > 0
        assert found(f"{plugins}authorization_denied_rate_per_minute", **labels, role=role) == 0


def test_acls_survive_restarts(tmp_path: Path) -> None:
    properties = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    node = OdradekProcess(tmp_path, properties=properties)
    try:
        node.start()
        with RawConnection(node.port) as connection:
            connection.request(Api.CREATE_ACLS, 3, {"creations": [_deny("kept")]})
        node.stop()
        node.start()
        with RawConnection(node.port) as connection:
            (resource,) = connection.request(Api.DESCRIBE_ACLS, 3, _EVERY_ACL).resources
        assert resource.resource_name == "kept"
    finally:
        node.remove()


def test_open_connections_see_changes_of_the_acls(open_node: NodeProcess) -> None:
    with RawConnection(open_node.port) as connection:
        create = {"timeout": 10_000, "validate_only": False, "topics": [_topic("kept"), _topic("other")]}
        assert {one.error_code for one in connection.request(Api.CREATE_TOPICS, 7, create).topics} == {ErrorCode.none}
        (created,) = connection.request(Api.CREATE_ACLS, 3, {"creations": [_deny("kept")]}).results
        assert created.error_code is ErrorCode.none
        assert _add_partitions(connection, "kept", 2) is ErrorCode.topic_authorization_failed
        assert _add_partitions(connection, "other", 2) is ErrorCode.none
        (deleted,) = connection.request(Api.DELETE_ACLS, 3, {"filters": [_EVERY_ACL]}).filter_results
        assert len(deleted.matching_acls) == 1
        assert _add_partitions(connection, "kept", 2) is ErrorCode.none
    until(lambda: "Denied: " in open_node.output_file.read_text(), what="a log line of the denial")
    (line,) = (line for line in open_node.output_file.read_text().splitlines() if "Denied: " in line)
    assert "principal=User:ANONYMOUS, operation=ALTER, resource=TOPIC:LITERAL:kept, host=127.0.0.1" in line
    assert "rule=MatchingAcl(acl=StandardAcl[" in line


_EVERY_ACL: dict[str, Any] = {
    "resource_type_filter": Resource.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": Operation.ANY,
    "permission_type": Permission.ANY,
}


def _deny(topic: str) -> dict[str, Any]:
    return {
        "resource_type": Resource.TOPIC,
        "resource_name": topic,
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:ANONYMOUS",
        "host": "127.0.0.1",
        "operation": Operation.ALTER,
        "permission_type": Permission.DENY,
    }


def _topic(name: str) -> dict[str, Any]:
    return {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}


def _add_partitions(connection: RawConnection, topic: str, count: int) -> ErrorCode:
    topics = [{"name": topic, "count": count, "assignments": None}]
    request = {"topics": topics, "timeout": 10_000, "validate_only": False}
    (response,) = connection.request(Api.CREATE_PARTITIONS, 3, request).results
    code: ErrorCode = response.error_code
    return code

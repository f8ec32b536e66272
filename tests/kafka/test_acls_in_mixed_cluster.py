"""ACLs in one cluster with brokers of Odradek and Apache Kafka, under a controller of either product.

Changes are forwarded to the controller, and every broker describes and applies what is in the metadata log.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from odradek.core.security.resources import Operation, PatternType, Permission, ResourceType
from tests.apis import Api
from tests.cluster.real_cluster import KafkaMember, Member, OdradekMember, RealCluster, real_cluster, roles_of, wait_for
from tests.raw_wire import RawConnection

pytestmark = pytest.mark.kafka

CONTROLLER, OURS, THEIRS = 1, 2, 3
LAYOUT = roles_of(controllers=(CONTROLLER,), brokers=(OURS, THEIRS))
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
EVERY_ACL: dict[str, Any] = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": Operation.ANY,
    "permission_type": Permission.ANY,
}


@pytest.fixture(
    scope="module",
    params=["controller of Odradek's", pytest.param("controller of Kafka's", marks=pytest.mark.tier("proof"))],
)
def cluster(
    request: pytest.FixtureRequest, apache_kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealCluster]:
    theirs = {f"node-{THEIRS}"} | ({f"node-{CONTROLLER}"} if "Kafka" in request.param else set())

    def new_member(directory: Path) -> Member:
        return KafkaMember(apache_kafka_libs, directory) if directory.name in theirs else OdradekMember(directory)

    directory = tmp_path_factory.mktemp("mixed-acls")
    with real_cluster(directory, LAYOUT, properties=AUTHORIZER, new_member=new_member) as cluster:
        yield cluster


@pytest.mark.parametrize(("through", "other"), [(OURS, THEIRS), (THEIRS, OURS)])
def test_acls_created_through_one_broker_are_known_to_both(cluster: RealCluster, through: int, other: int) -> None:
    name = f"created-at-{through}"
    creation = {
        "resource_type": ResourceType.TOPIC,
        "resource_name": name,
        "resource_pattern_type": PatternType.PREFIXED,
        "principal": "User:alice",
        "host": "0:0:0:0:0:0:0:1",
        "operation": Operation.READ,
        "permission_type": Permission.DENY,
    }
    with RawConnection(cluster.nodes[through].port) as connection, RawConnection(cluster.nodes[other].port) as second:
        (created,) = connection.request(Api.CREATE_ACLS, 3, {"creations": [creation]}).results
        assert created.error_code is ErrorCode.none
        wait_for("the ACL at the broker", lambda: name in described(connection))
        wait_for("the ACL at the other broker", lambda: name in described(second))
        deletion = {"filters": [{**EVERY_ACL, "resource_name_filter": name}]}
        (deleted,) = second.request(Api.DELETE_ACLS, 3, deletion).filter_results
        assert [(one.resource_name, one.principal, one.host) for one in deleted.matching_acls] == [
            (name, "User:alice", "0:0:0:0:0:0:0:1")
        ]
        wait_for("the deletion", lambda: name not in described(connection))


def described(connection: RawConnection) -> set[str]:
    return {one.resource_name for one in connection.request(Api.DESCRIBE_ACLS, 3, EVERY_ACL).resources}

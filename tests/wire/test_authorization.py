"""A cluster whose ACLs restrict its clients, over sockets: a node that is broker and controller, and another broker.

On PLAINTEXT listeners, clients and nodes are User:ANONYMOUS. Requests of User:admin, a super user, come in an Envelope,
as from a broker whose client it is. Several controllers could not elect a leader before they know the ACLs, unless they
were super users.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.principal import Principal
from odradek.core.security.resources import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from odradek.testing import Cluster
from odradek.wire.apis import ApiKey
from odradek.wire.forwarding import read_forwarded_response, write_forwarded_request
from odradek.wire.principal import write_principal
from odradek.wire.schemas import schema
from tests import raw_wire
from tests.metrics_scrape import get
from tests.node_process import free_ports
from tests.odradek_process import OdradekProcess
from tests.raw_wire import RawConnection
from tests.wire.plain_requests import until

ADMIN, ALICE = Principal("User", "admin"), Principal("User", "alice")
LOOPBACK = bytes((127, 0, 0, 1))
DENIED, TOPIC_DENIED = ErrorCode.cluster_authorization_failed, ErrorCode.topic_authorization_failed
PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    # Until there are ACLs, the nodes need no others.
    "allow.everyone.if.no.acl.found": "true",
}


class Stage:
    """Topics `open` and `secret`; ACLs about the cluster, and about topics whose names begin with `secret`."""

    def __init__(self, cluster: Cluster) -> None:
        self.brokers = {number: cluster._address(number).port for number in cluster.brokers}
        (controller,) = cluster.controllers
        self.controller = cluster._configs[controller].advertised_controller_listeners[0].port
        created = self.create(self.brokers[1], "open", "secret")
        assert created == {"open": ErrorCode.none, "secret": ErrorCode.none}
        acls = [
            acl(ResourceType.CLUSTER, CLUSTER_NAME, "User:ANONYMOUS", Operation.CLUSTER_ACTION),
            acl(ResourceType.TOPIC, "secret", "User:alice", Operation.CREATE, PatternType.PREFIXED),
        ]
        response = self.forward(ADMIN, ApiKey.CREATE_ACLS, 3, {"creations": acls})
        assert {one.error_code for one in response.results} == {ErrorCode.none}
        for port in self.brokers.values():
            until(lambda port=port: topics_of(port, "secret") == {"secret": TOPIC_DENIED}, what="the ACLs")

    def create(self, port: int, *names: str) -> dict[str, ErrorCode]:
        topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
        response = request(port, ApiKey.CREATE_TOPICS, 7, {"topics": topics, "timeout": 10_000})
        return {one.name: one.error_code for one in response.topics}

    def forward(self, client: Principal, api_key: int, version: int, fields: dict[str, Any]) -> Any:
        """The response of the active controller to a client's request, or the error of the Envelope."""
        messages = schema(api_key, version)
        data = write_forwarded_request(
            messages, raw_wire.build(messages.request_type, fields), correlation_id=7, client_id="client"
        )
        envelope = {
            "request_data": data,
            "request_principal": write_principal(client),
            "client_host_address": LOOPBACK,
        }
        response = request(self.controller, ApiKey.ENVELOPE, 0, envelope)
        if response.error_code is not ErrorCode.none:
            return response.error_code
        return read_forwarded_response(messages, response.response_data, correlation_id=7)


def acl(
    kind: ResourceType, name: str, principal: str, operation: Operation, pattern: PatternType = PatternType.LITERAL
) -> dict[str, Any]:
    return {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": pattern,
        "principal": principal,
        "host": "*",
        "operation": operation,
        "permission_type": Permission.ALLOW,
    }


def request(port: int, api_key: int, version: int, fields: dict[str, Any]) -> Any:
    with RawConnection(port) as connection:
        return connection.request(api_key, version, fields)


def topics_of(port: int, *names: str) -> dict[str, ErrorCode]:
    """As Metadata shows them; without names, all topics."""
    topics = [{"name": name, "topic_id": None} for name in names] or None
    response = request(port, ApiKey.METADATA, 12, {"topics": topics, "allow_auto_topic_creation": True})
    return {one.name: one.error_code for one in response.topics}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Cluster(brokers=2, properties=PROPERTIES) as cluster:
        yield Stage(cluster)


def test_every_broker_hides_topics_that_may_not_be_described(stage: Stage) -> None:
    for port in stage.brokers.values():
        assert topics_of(port) == {"open": ErrorCode.none}
        assert topics_of(port, "open", "secret", "secret-missing") == {
            "open": ErrorCode.none,
            "secret": TOPIC_DENIED,
            "secret-missing": TOPIC_DENIED,
        }
        described = request(port, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": [], "response_partition_limit": 10})
        assert [one.name for one in described.topics] == ["open"]
        assert described.topics[0].topic_authorized_operations == 3576


def test_controller_authorizes_what_every_broker_forwards_as_the_client(stage: Stage) -> None:
    for number, port in stage.brokers.items():
        # One of them forwards to the controller in its own process.
        assert stage.create(port, f"secret-{number}", f"open-{number}") == {
            f"secret-{number}": TOPIC_DENIED,
            f"open-{number}": ErrorCode.none,
        }
        deleted = request(port, ApiKey.DELETE_TOPICS, 6, {"topics": [{"name": "secret", "topic_id": None}]})
        assert [one.error_code for one in deleted.responses] == [TOPIC_DENIED]
        quorum = request(port, ApiKey.DESCRIBE_QUORUM, 2, {"topics": []})
        assert (quorum.error_code, quorum.error_message) == (DENIED, "Cluster authorization failed.")
    topics = [{"name": "secret-alice", "num_partitions": 1, "replication_factor": 1}]
    response = stage.forward(ALICE, ApiKey.CREATE_TOPICS, 7, {"topics": topics, "timeout": 10_000})
    assert [one.error_code for one in response.topics] == [ErrorCode.none]
    # She may create it, but not read its configs.
    assert response.topics[0].topic_config_error_code == TOPIC_DENIED


def test_broker_denies_administration(stage: Stage) -> None:
    for port in stage.brokers.values():
        assert request(port, ApiKey.DESCRIBE_LOG_DIRS, 4, {"topics": None}).error_code is DENIED
        assert request(port, ApiKey.LIST_CONFIG_RESOURCES, 1, {}).error_code is DENIED
        cluster = request(
            port, ApiKey.DESCRIBE_CLUSTER, 1, {"endpoint_type": 1, "include_cluster_authorized_operations": True}
        )
        assert (len(cluster.brokers), cluster.cluster_authorized_operations) == (2, 0)


def test_controllers_are_described_with_alter_only(stage: Stage) -> None:
    response = request(stage.controller, ApiKey.DESCRIBE_CLUSTER, 1, {"endpoint_type": 2})
    assert (response.error_code, response.brokers) == (DENIED, ())


def test_requests_between_nodes_need_cluster_action(stage: Stage) -> None:
    """The last test: without CLUSTER_ACTION the cluster cannot work."""
    denied = acl(ResourceType.CLUSTER, CLUSTER_NAME, "User:ANONYMOUS", Operation.CLUSTER_ACTION)
    denied["permission_type"] = Permission.DENY
    stage.forward(ADMIN, ApiKey.CREATE_ACLS, 3, {"creations": [denied]})
    until(lambda: stage.forward(ADMIN, ApiKey.DESCRIBE_QUORUM, 2, {"topics": []}) is DENIED, what="the denial")
    needed = ((ApiKey.VOTE, 2), (ApiKey.BROKER_HEARTBEAT, 1), (ApiKey.FETCH, 17), (ApiKey.FETCH_SNAPSHOT, 1))
    for api_key, version in needed:
        assert request(stage.controller, api_key, version, {}).error_code is DENIED
    # The broker without a controller cannot send what its clients request; the other one need not send it.
    local, other = stage.brokers.values()
    assert stage.create(other, "later") == {"later": ErrorCode.unknown_server_error}
    assert stage.create(local, "later") == {"later": ErrorCode.none}


def test_http_endpoint_applies_the_acls(tmp_path: Path) -> None:
    (http_port,) = free_ports(1)
    node = OdradekProcess(tmp_path, properties={**PROPERTIES, "http.address": str(http_port)})
    lease = "/v1/leases?topic=secret&partition=0"
    try:
        node.start()
        with RawConnection(node.port) as connection:
            topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("open", "secret")]
            connection.request(ApiKey.CREATE_TOPICS, 7, {"topics": topics, "timeout": 10_000})
            assert {get(http_port, path).status for path in ("/metrics", "/v1/traffic", "/v1/leases")} == {200}
            assert get(http_port, lease, method="POST").status == 200
            # From now on, those who are not named may not describe the cluster, nor read the topic.
            acls = [
                acl(ResourceType.CLUSTER, CLUSTER_NAME, "User:admin", Operation.ALL),
                acl(ResourceType.TOPIC, "secret", "User:alice", Operation.READ),
            ]
            created = connection.request(ApiKey.CREATE_ACLS, 3, {"creations": acls}).results
            assert {one.error_code for one in created} == {ErrorCode.none}
        for path in ("/metrics", "/v1/traffic", "/v1/rebalances", "/v1/leases", "/nothing"):
            assert get(http_port, path).status == 403
        assert get(http_port, lease, method="POST").status == 403
        assert get(http_port, lease.replace("secret", "open"), method="POST").status == 200
        assert {get(http_port, path).status for path in ("/healthz", "/readyz")} == {200}
    finally:
        node.remove()

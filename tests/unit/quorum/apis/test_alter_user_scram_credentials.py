from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType
from tests.unit.core.controller.cluster import Cluster
from tests.unit.fake_access import FakeAccess
from tests.unit.quorum.fake_controller_node import FakeControllerNode, fail_with

ALTER_USER_SCRAM_CREDENTIALS = 51
DENIED = "Request AlterUserScramCredentials needs ALTER permission."
MAY_ALTER = (Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def node(cluster: Cluster) -> FakeControllerNode:
    node = FakeControllerNode()
    node.controller.run = lambda command: cluster.take(command(cluster.controller))
    return node


def upsertion(user: str, iterations: int = 4096) -> dict[str, Any]:
    return {"name": user, "mechanism": 1, "iterations": iterations, "salt": b"salt", "salted_password": b"salted"}


def alter(node: FakeControllerNode, deletions: list[Any], upsertions: list[Any]) -> list[tuple[str, ErrorCode, Any]]:
    response = node.request(ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=deletions, upsertions=upsertions)
    return [(one.user, one.error_code, one.error_message) for one in response.results]


def test_each_user_has_a_result(node: FakeControllerNode, cluster: Cluster) -> None:
    assert alter(node, [], [upsertion("alice"), upsertion("bob", iterations=1)]) == [
        ("alice", ErrorCode.none, None),
        ("bob", ErrorCode.unacceptable_credential, "Too few iterations"),
    ]
    assert set(cluster.image.scram_credentials) == {("alice", 1)}
    assert alter(node, [{"name": "alice", "mechanism": 1}], []) == [("alice", ErrorCode.none, None)]
    assert not cluster.image.scram_credentials


def test_error_response_names_every_user_in_order(node: FakeControllerNode) -> None:
    node.controller.run = fail_with(ErrorCode.not_controller)
    assert alter(node, [{"name": "zoe", "mechanism": 1}], [upsertion("bob"), upsertion("amy"), upsertion("zoe")]) == [
        ("amy", ErrorCode.not_controller, None),
        ("bob", ErrorCode.not_controller, None),
        ("zoe", ErrorCode.not_controller, None),
    ]


def test_alteration_requires_alter_on_the_cluster(node: FakeControllerNode, cluster: Cluster) -> None:
    node.access = access = FakeAccess()
    assert alter(node, [], [upsertion("bob"), upsertion("amy")]) == [
        ("amy", ErrorCode.cluster_authorization_failed, DENIED),
        ("bob", ErrorCode.cluster_authorization_failed, DENIED),
    ]
    assert access.grants_requested() == [MAY_ALTER]
    assert not cluster.image.scram_credentials
    node.access = FakeAccess(MAY_ALTER)
    assert alter(node, [], [upsertion("bob")]) == [("bob", ErrorCode.none, None)]

"""Regular expressions of consumer groups match only topics that a member may describe."""

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.groups.commands import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResponse
from odradek.core.security.access import UNRESTRICTED, Access
from odradek.core.security.resources import Operation, ResourceType
from tests.unit.core.groups.cluster import Cluster
from tests.unit.core.groups.coordinator_harness import CoordinatorHarness
from tests.unit.core.groups.members import GROUP, given_id, join, protocols
from tests.unit.fake_access import FakeAccess, Grant


def describe(topic: str) -> Grant:
    return Operation.DESCRIBE, ResourceType.TOPIC, topic


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(orders_eu=1, orders_us=1, payments=1)


@pytest.fixture
def harness(cluster: Cluster) -> CoordinatorHarness:
    return CoordinatorHarness(topics=cluster)


def beat(
    harness: CoordinatorHarness,
    member: str,
    epoch: int,
    access: Access,
    regex: str | None = None,
    group_id: str = "g",
) -> int:
    """Returns the epoch of the member, after everything that is due."""
    command = ConsumerGroupHeartbeat(1, group_id, member, epoch, "client", "/127.0.0.1", access=access)
    if epoch == 0:
        command = command._replace(rebalance_timeout_ms=60_000, topic_names=(), topic_regex=regex, owned=())
    response = harness.execute(command)
    assert isinstance(response, ConsumerGroupHeartbeatResponse)
    assert response.error is ErrorCode.none
    harness.run_deadlines()
    harness.commit()
    return response.member_epoch


def matches(harness: CoordinatorHarness, group_id: str = "g") -> dict[str, set[str]]:
    group = harness.coordinator._groups.consumer(group_id)
    assert group is not None
    return {regex: set(resolved.topics) for regex, resolved in group.resolved.items()}


def test_expression_matches_only_topics_that_the_member_may_describe(harness: CoordinatorHarness) -> None:
    access = FakeAccess(describe("orders_eu"), describe("payments"))
    beat(harness, "m1", 0, access, "orders.*")
    assert matches(harness) == {"orders.*": {"orders_eu"}}
    assert {one.name for one in access.requests} == {"orders_eu", "orders_us"}
    assert access.logged_denials() == []


def test_without_authorizer_all_topics_match(harness: CoordinatorHarness) -> None:
    beat(harness, "m1", 0, UNRESTRICTED, "orders.*")
    assert matches(harness) == {"orders.*": {"orders_eu", "orders_us"}}


def test_members_share_the_result_until_another_member_starts_a_resolution(
    harness: CoordinatorHarness, cluster: Cluster
) -> None:
    first, second = FakeAccess(describe("orders_eu")), FakeAccess(describe("orders_us"), describe("orders_new"))
    beat(harness, "m1", 0, first, "orders.*")
    epoch = beat(harness, "m2", 0, second, "orders.*")
    assert matches(harness) == {"orders.*": {"orders_eu"}}
    cluster.create("orders_new", 1)
    harness.coordinator.on_topics_changed(["orders_new"], any_created=True)
    harness.pass_time(10_001)
    beat(harness, "m2", epoch, second)
    assert matches(harness) == {"orders.*": {"orders_us", "orders_new"}}


def test_each_topic_is_checked_once_for_all_expressions(harness: CoordinatorHarness) -> None:
    access = FakeAccess(describe("orders_eu"))
    beat(harness, "m1", 0, access, "orders.*")
    access.requests.clear()
    harness.pass_time(10_001)
    beat(harness, "m2", 0, access, ".*_eu")
    assert matches(harness) == {"orders.*": {"orders_eu"}, ".*_eu": {"orders_eu"}}
    assert sorted(one.name for one in access.requests) == ["orders_eu", "orders_us"]


def test_join_of_a_classic_member_resolves_with_its_permissions(harness: CoordinatorHarness, cluster: Cluster) -> None:
    """As in Kafka: its join is a step of the consumer group like a heartbeat, although it has no expression itself."""
    beat(harness, "m1", 0, FakeAccess(describe("orders_eu")), "orders.*", group_id=GROUP)
    cluster.create("orders_new", 1)
    harness.coordinator.on_topics_changed(["orders_new"], any_created=True)
    harness.pass_time(10_001)
    access = FakeAccess(describe("orders_new"))
    harness.execute(join(given_id(harness), access=access, protocols=protocols(topics=("payments",))))
    harness.run_deadlines()
    harness.commit()
    assert matches(harness, GROUP) == {"orders.*": {"orders_new"}}

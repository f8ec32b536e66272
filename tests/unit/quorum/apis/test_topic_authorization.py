"""What controllers authorize for the creation and deletion of topics and partitions, as Apache Kafka 4.3.1 does."""

from typing import Any
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.security.access import Access
from odradek.core.security.resources import Operation
from odradek.wire.apis import ApiKey
from tests.unit.core.controller.cluster import Cluster
from tests.unit.fake_access import FakeAccess, on_cluster, on_topic
from tests.unit.quorum.apis.controller_versions import versions_of
from tests.unit.quorum.fake_controller_node import FakeControllerNode

TOPIC_DENIED = ErrorCode.topic_authorization_failed


@pytest.fixture
def node() -> FakeControllerNode:
    return FakeControllerNode()


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
        access = FakeAccess(on_cluster(Operation.CREATE))
        created = self.create(active, access, "a", "b", version=version)
        assert [one.error_code for one in created.values()] == [ErrorCode.none] * 2
        assert access.logged_denials() == []

    @pytest.mark.parametrize("version", versions_of(ApiKey.CREATE_TOPICS))
    @pytest.mark.parametrize("validate_only", [False, True])
    def test_create_on_a_topic_allows_that_topic(
        self, active: FakeControllerNode, metadata: Cluster, version: int, validate_only: bool
    ) -> None:
        access = FakeAccess(on_topic(Operation.CREATE, "a"))
        created = self.create(active, access, "b", "a", version=version, validate_only=validate_only)
        assert {name: (one.error_code, one.error_message) for name, one in created.items()} == {
            "a": (ErrorCode.none, None),
            "b": (TOPIC_DENIED, "Authorization failed."),
        }
        assert ("a" in metadata.image.topics_by_name) is not validate_only
        assert "b" not in metadata.image.topics_by_name
        # Not the check of the cluster, since the topics may be allowed one by one.
        assert access.logged_denials() == [on_topic(Operation.CREATE, "b")]

    def test_denial_does_not_tell_whether_a_topic_exists(self, active: FakeControllerNode) -> None:
        created = self.create(active, FakeAccess(), "orders", "new", "a/b")
        assert {one.error_code for one in created.values()} == {TOPIC_DENIED}
        assert {(one.topic_id, one.num_partitions, one.configs) for one in created.values()} == {(None, -1, ())}

    def test_duplicates_and_the_metadata_log_are_invalid_without_a_check(self, active: FakeControllerNode) -> None:
        access = FakeAccess()
        created = self.create(active, access, "a", "a", "__cluster_metadata")
        assert {one.error_code for one in created.values()} == {ErrorCode.invalid_request}
        assert access.requests == [(*on_cluster(Operation.CREATE), False)]

    @pytest.mark.parametrize("version", [5, 6, 7])
    def test_configs_need_describe_configs_on_the_topic(self, active: FakeControllerNode, version: int) -> None:
        # CREATE on the cluster does not include it.
        access = FakeAccess(
            on_cluster(Operation.CREATE),
            on_cluster(Operation.DESCRIBE_CONFIGS),
            on_topic(Operation.DESCRIBE_CONFIGS, "a"),
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
        access = FakeAccess(on_topic(Operation.ALTER, "orders"), on_cluster(Operation.ALTER))
        topics = [{"name": name, "count": 2} for name in ("gone", "orders", "payments", "twice", "twice")]
        response = active.request(ApiKey.CREATE_PARTITIONS, version, access=access, topics=topics)
        assert {one.name: (one.error_code, one.error_message) for one in response.results} == {
            "orders": (ErrorCode.none, None),
            "payments": (TOPIC_DENIED, None),
            "gone": (TOPIC_DENIED, None),
            "twice": (ErrorCode.invalid_request, "Duplicate topic name."),
        }
        assert access.logged_denials() == [on_topic(Operation.ALTER, "gone"), on_topic(Operation.ALTER, "payments")]
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
        access = FakeAccess(on_cluster(Operation.DELETE))
        results = self.delete(active, access, "orders", "gone", version=version)
        assert [(name, code) for name, _, code in results] == [
            ("gone", ErrorCode.unknown_topic_or_partition),
            ("orders", ErrorCode.none),
        ]
        assert [one.operation for one in access.requests] == [Operation.DELETE]

    @pytest.mark.parametrize("version", versions_of(ApiKey.DELETE_TOPICS))
    def test_name_that_may_not_be_described_is_hidden(self, active: FakeControllerNode, version: int) -> None:
        access = FakeAccess(on_topic(Operation.DELETE, "orders"), on_topic(Operation.DELETE, "gone"))
        assert self.delete(active, access, "orders", "gone", version=version) == [
            ("orders", None, TOPIC_DENIED),
            ("gone", None, TOPIC_DENIED),
        ]

    @pytest.mark.parametrize("version", versions_of(ApiKey.DELETE_TOPICS))
    def test_name_that_may_be_described_needs_delete(
        self, active: FakeControllerNode, metadata: Cluster, version: int
    ) -> None:
        access = FakeAccess(
            on_topic(Operation.DESCRIBE, "orders"),
            on_topic(Operation.DESCRIBE, "gone"),
            on_topic(Operation.DESCRIBE, "payments"),
            on_topic(Operation.DELETE, "payments"),
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
        assert self.delete(active, FakeAccess(on_topic(Operation.DESCRIBE, "orders")), orders, payments, unknown) == [
            ("orders", orders, TOPIC_DENIED),
            (None, payments, TOPIC_DENIED),
            (None, unknown, ErrorCode.unknown_topic_id),
        ]
        assert self.delete(active, FakeAccess(on_topic(Operation.DELETE, "orders")), orders) == [
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

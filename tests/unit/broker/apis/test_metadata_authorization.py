"""What Metadata and DescribeTopicPartitions show to clients that may not describe or create every topic."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType
from tests.unit.broker.fake_broker import FakeBroker
from tests.unit.fake_access import FakeAccess, Grant

METADATA, DESCRIBE_TOPIC_PARTITIONS = 3, 75
ALL_VERSIONS = range(14)
NOT_REQUESTED = -(2**31)
DENIED = ErrorCode.topic_authorization_failed
UNKNOWN = ErrorCode.unknown_topic_or_partition
READ, WRITE, CREATE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DESCRIBE


def topic(operation: Operation, *names: str) -> list[Grant]:
    return [(operation, ResourceType.TOPIC, name) for name in names]


def cluster(operation: Operation) -> list[Grant]:
    return [(operation, ResourceType.CLUSTER, CLUSTER_NAME)]


def restrict(broker: FakeBroker, *granted: Iterable[Grant]) -> FakeAccess:
    access = FakeAccess(*(one for some in granted for one in some))
    broker.access = access
    return access


def metadata(broker: FakeBroker, version: int, names: Iterable[str] | None, **fields: Any) -> Any:
    topics = None if names is None else [{"name": name, "topic_id": None} for name in names]
    if version == 0 and topics is None:
        topics = []
    defaults: dict[str, Any] = {
        "topics": topics,
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    return broker.request(METADATA, version, **(defaults | fields))


def results(response: Any) -> list[tuple[str, ErrorCode]]:
    return [(one.name, one.error_code) for one in response.topics]


class TestMetadata:
    @pytest.mark.parametrize("version", ALL_VERSIONS)
    def test_topic_that_may_not_be_described_is_hidden(self, broker: FakeBroker, version: int) -> None:
        broker.add_topic("orders")
        broker.add_topic("secret")
        broker.add_topic("__consumer_offsets")
        # The versions before 4 always create topics.
        access = restrict(broker, topic(DESCRIBE, "orders", "gone"), topic(CREATE, "gone"), topic(READ, "secret"))
        response = metadata(broker, version, ("secret", "orders", "missing", "gone", "a/b", "__consumer_offsets"))
        assert results(response) == [
            ("orders", ErrorCode.none),
            ("gone", UNKNOWN),
            ("secret", DENIED),
            ("missing", DENIED),
            ("a/b", DENIED),
            ("__consumer_offsets", DENIED),
        ]
        for one in response.topics[2:]:
            assert one.partitions == () and getattr(one, "topic_id", None) is None
            assert getattr(one, "is_internal", False) is False
        assert access.logged_denials() == topic(DESCRIBE, "secret", "missing", "a/b", "__consumer_offsets")

    @pytest.mark.parametrize("version", ALL_VERSIONS)
    def test_all_topics_are_those_that_may_be_described(self, broker: FakeBroker, version: int) -> None:
        for name in ("orders", "secret", "payments"):
            broker.add_topic(name)
        access = restrict(broker, topic(DESCRIBE, "orders", "payments"))
        response = metadata(broker, version, None)
        assert results(response) == [("orders", ErrorCode.none), ("payments", ErrorCode.none)]
        assert access.logged_denials() == []
        # Nothing of it is kept for clients that may see more, or less.
        restrict(broker, topic(DESCRIBE, "secret"))
        assert results(metadata(broker, version, None)) == [("secret", ErrorCode.none)]

    @pytest.mark.parametrize("version", [12, 13])
    def test_denied_topic_id_has_no_name(self, broker: FakeBroker, version: int) -> None:
        orders, secret = broker.add_topic("orders").id, broker.add_topic("secret").id
        restrict(broker, topic(DESCRIBE, "orders"))
        topics = [{"name": None, "topic_id": one} for one in (secret, orders, UUID(int=9))]
        response = metadata(broker, version, None, topics=topics, include_topic_authorized_operations=True)
        assert [
            (one.error_code, one.name, one.topic_id, one.is_internal, one.topic_authorized_operations)
            for one in response.topics
        ] == [
            (ErrorCode.unknown_topic_id, None, UUID(int=9), False, NOT_REQUESTED),
            (ErrorCode.none, "orders", orders, False, 1 << DESCRIBE),
            (DENIED, None, secret, False, NOT_REQUESTED),
        ]

    @pytest.mark.parametrize("version", range(4, 14))
    def test_create_on_the_cluster_lets_every_missing_topic_be_created(self, broker: FakeBroker, version: int) -> None:
        access = restrict(broker, topic(DESCRIBE, "a", "b"), cluster(CREATE))
        response = metadata(broker, version, ("a", "b", "c"), allow_auto_topic_creation=True)
        assert results(response) == [("a", UNKNOWN), ("b", UNKNOWN), ("c", DENIED)]
        assert [one.name for one in broker.controller.requests[0][2].topics] == ["a", "b"]
        assert access.logged_denials() == topic(DESCRIBE, "c")

    @pytest.mark.parametrize("version", range(4, 14))
    def test_create_on_a_topic_lets_it_be_created(self, broker: FakeBroker, version: int) -> None:
        broker.add_topic("orders")
        names = ("a", "b", "a/b", "__transaction_state", "orders")
        access = restrict(broker, topic(DESCRIBE, *names), topic(CREATE, "a"))
        response = metadata(
            broker, version, names, allow_auto_topic_creation=True, include_topic_authorized_operations=True
        )
        assert results(response) == [
            ("orders", ErrorCode.none),
            ("a", UNKNOWN),
            ("b", DENIED),
            ("a/b", DENIED),
            ("__transaction_state", DENIED),
        ]
        assert [one.is_internal for one in response.topics] == [False] * 4 + [True]
        if version >= 8:
            operations = [one.topic_authorized_operations for one in response.topics]
            assert operations == [1 << DESCRIBE, 1 << DESCRIBE | 1 << CREATE] + [NOT_REQUESTED] * 3
        assert [one.name for one in broker.controller.requests[0][2].topics] == ["a"]
        assert access.logged_denials() == topic(CREATE, "b", "a/b", "__transaction_state")

    def test_create_is_not_checked_for_clients_that_create_nothing(self, broker: FakeBroker) -> None:
        access = restrict(broker, topic(DESCRIBE, "a"))
        assert results(metadata(broker, 13, ("a",))) == [("a", UNKNOWN)]
        assert {one.operation for one in access.requests} == {DESCRIBE}

    def test_topics_are_created_as_the_client(self, broker: FakeBroker) -> None:
        restrict(broker, topic(DESCRIBE, "a"), topic(CREATE, "a"))
        metadata(broker, 13, ("a",), allow_auto_topic_creation=True)
        (client,) = broker.controller.clients
        assert (client.client_id, client.host) == ("test", "127.0.0.1")

    @pytest.mark.parametrize("version", [8, 9, 10])
    def test_cluster_operations_need_describe_on_the_cluster(self, broker: FakeBroker, version: int) -> None:
        def operations(*granted: list[Grant], requested: bool = True) -> int:
            restrict(broker, *granted)
            response = metadata(broker, version, (), include_cluster_authorized_operations=requested)
            found: int = response.cluster_authorized_operations
            return found

        assert operations(cluster(CREATE)) == 0
        assert operations(cluster(CREATE), cluster(DESCRIBE)) == 1 << CREATE | 1 << DESCRIBE
        assert operations(cluster(DESCRIBE), requested=False) == NOT_REQUESTED

    @pytest.mark.parametrize("version", range(8, 14))
    def test_topic_operations_are_those_of_each_topic(self, broker: FakeBroker, version: int) -> None:
        broker.add_topic("orders", 2)
        broker.add_topic("payments")
        access = restrict(broker, topic(DESCRIBE, "orders", "payments", "gone"), topic(WRITE, "orders"))
        for names in (None, ("orders", "payments")):
            response = metadata(broker, version, names, include_topic_authorized_operations=True)
            assert [(one.name, one.topic_authorized_operations, len(one.partitions)) for one in response.topics] == [
                ("orders", 1 << DESCRIBE | 1 << WRITE, 2),
                ("payments", 1 << DESCRIBE, 1),
            ]
        response = metadata(broker, version, ("gone",), include_topic_authorized_operations=True)
        assert [one.topic_authorized_operations for one in response.topics] == [1 << DESCRIBE]
        assert access.logged_denials() == []

    @pytest.mark.parametrize("names_given", [True, False])
    def test_many_topics_are_authorized_in_slices(self, broker: FakeBroker, names_given: bool) -> None:
        names = [f"topic-{number:04}" for number in range(1500)]
        for name in names:
            broker.add_topic(name, held=False)
        restrict(broker, topic(DESCRIBE, *names[::2]))
        response = metadata(broker, 13, names if names_given else None, include_topic_authorized_operations=True)
        found = [one.name for one in response.topics if one.error_code is ErrorCode.none]
        assert sorted(found) == names[::2]
        assert len(response.topics) == (1500 if names_given else 750)
        assert {one.topic_authorized_operations for one in response.topics[:750]} == {1 << DESCRIBE}


class TestDescribeTopicPartitions:
    def describe(self, broker: FakeBroker, *names: str, limit: int = 2000, cursor: Any = None) -> Any:
        return broker.request(
            DESCRIBE_TOPIC_PARTITIONS,
            0,
            topics=[{"name": name} for name in names],
            response_partition_limit=limit,
            cursor=cursor,
        )

    def test_denied_topics_follow_the_others(self, broker: FakeBroker) -> None:
        broker.add_topic("orders")
        broker.add_topic("alpha")
        access = restrict(broker, topic(DESCRIBE, "orders", "gone"), topic(READ, "orders"))
        response = self.describe(broker, "orders", "missing", "gone", "alpha")
        assert [
            (one.name, one.error_code, one.topic_id is None, one.topic_authorized_operations) for one in response.topics
        ] == [
            ("gone", UNKNOWN, True, 1 << DESCRIBE),
            ("orders", ErrorCode.none, False, 1 << DESCRIBE | 1 << READ),
            ("alpha", DENIED, True, NOT_REQUESTED),
            ("missing", DENIED, True, NOT_REQUESTED),
        ]
        assert sorted(access.logged_denials()) == topic(DESCRIBE, "alpha", "missing")

    def test_all_topics_are_those_that_may_be_described(self, broker: FakeBroker) -> None:
        for name in ("orders", "secret", "payments"):
            broker.add_topic(name)
        access = restrict(broker, topic(DESCRIBE, "orders", "payments"))
        assert results(self.describe(broker)) == [("orders", ErrorCode.none), ("payments", ErrorCode.none)]
        # Unlike those of Metadata, they are logged.
        assert access.logged_denials() == topic(DESCRIBE, "secret")

    def test_every_page_has_the_denied_topics_from_its_cursor_on(self, broker: FakeBroker) -> None:
        names = ("a", "b", "c", "d")
        for name in names:
            broker.add_topic(name)
        restrict(broker, topic(DESCRIBE, "b", "d"))
        first = self.describe(broker, *names, limit=1)
        assert results(first) == [("b", ErrorCode.none), ("a", DENIED), ("c", DENIED)]
        assert (first.next_cursor.topic_name, first.next_cursor.partition_index) == ("d", 0)
        second = self.describe(broker, *names, limit=1, cursor={"topic_name": "d", "partition_index": 0})
        assert results(second) == [("d", ErrorCode.none)]
        assert second.next_cursor is None

    def test_many_topics_are_authorized_in_slices(self, broker: FakeBroker) -> None:
        names = [f"topic-{number:04}" for number in range(1500)]
        for name in names:
            broker.add_topic(name, held=False)
        restrict(broker, topic(DESCRIBE, *names[::2]))
        assert [one.name for one in self.describe(broker).topics] == names[::2]
        assert [one.name for one in self.describe(broker, *names).topics] == names[::2] + names[1::2]

"""Metadata responses, as Apache Kafka 4.3.1 returns them."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from tests.unit.broker.fake_broker import CLUSTER_ID, FakeBroker, broker_image, partition_image

METADATA = 3
ALL_VERSIONS = range(14)
NOT_REQUESTED = -(2**31)
ALL_TOPIC_OPERATIONS = 3576
ALL_CLUSTER_OPERATIONS = 8096


def request_metadata(broker: FakeBroker, version: int, names: tuple[str | None, ...] | None, **fields: Any) -> Any:
    topics = None if names is None else [{"name": name, "topic_id": None} for name in names]
    defaults: dict[str, Any] = {
        "topics": topics,
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    return broker.request(METADATA, version, **(defaults | fields))


def errors(response: Any) -> dict[str, ErrorCode]:
    return {topic.name: topic.error_code for topic in response.topics}


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_all_topics_in_every_version(broker: FakeBroker, version: int) -> None:
    broker.add_topic("orders", 2)
    broker.add_topic("__consumer_offsets")
    response = request_metadata(broker, version, () if version == 0 else None)
    assert [(one.node_id, one.host, one.port) for one in response.brokers] == [(1, "plaintext-1", 9001)]
    assert errors(response) == {"orders": ErrorCode.none, "__consumer_offsets": ErrorCode.none}
    orders = next(topic for topic in response.topics if topic.name == "orders")
    assert [(one.partition_index, one.leader_id, one.replica_nodes) for one in orders.partitions] == [
        (0, 1, (1,)),
        (1, 1, (1,)),
    ]
    if version >= 1:
        assert response.controller_id == 1
        assert {topic.name: topic.is_internal for topic in response.topics} == {
            "orders": False,
            "__consumer_offsets": True,
        }
    if version >= 2:
        assert response.cluster_id == CLUSTER_ID
    if version >= 10:
        assert orders.topic_id == broker.image.topics_by_name["orders"].id


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_an_empty_list_is_everything_in_version_0_and_nothing_since(broker: FakeBroker, version: int) -> None:
    broker.add_topic("orders")
    assert len(request_metadata(broker, version, ()).topics) == (1 if version == 0 else 0)


def test_each_name_is_returned_once_and_missing_topics_last(broker: FakeBroker) -> None:
    broker.add_topic("orders")
    response = request_metadata(broker, 12, ("gone", "orders", "a/b", "orders", "..", "", "__transaction_state"))
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("orders", ErrorCode.none),
        ("gone", ErrorCode.unknown_topic_or_partition),
        ("a/b", ErrorCode.invalid_topic_exception),
        ("..", ErrorCode.invalid_topic_exception),
        ("", ErrorCode.invalid_topic_exception),
        ("__transaction_state", ErrorCode.unknown_topic_or_partition),
    ]
    assert [topic.is_internal for topic in response.topics] == [False, False, False, False, False, True]
    assert all(topic.topic_id is None and topic.partitions == () for topic in response.topics[1:])


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize(("name", "topic_id"), [("orders", UUID(int=77)), (None, UUID(int=77)), (None, None)])
def test_topic_ids_and_null_names_are_rejected_before_version_12(
    broker: FakeBroker, version: int, name: str | None, topic_id: UUID | None
) -> None:
    broker.add_topic("orders")
    response = request_metadata(broker, version, None, topics=[{"name": name, "topic_id": topic_id}])
    assert (response.brokers, response.cluster_id, response.controller_id) == ((), None, -1)
    (topic,) = response.topics
    assert (topic.error_code, topic.name, topic.topic_id) == (ErrorCode.invalid_request, name or "", topic_id)


@pytest.mark.parametrize("version", [12, 13])
def test_metadata_of_topics_by_id(broker: FakeBroker, version: int) -> None:
    known = broker.add_topic("orders").id
    topics = [{"name": None, "topic_id": known}, {"name": "ignored", "topic_id": UUID(int=77)}]
    response = request_metadata(broker, version, None, topics=topics, include_topic_authorized_operations=True)
    assert [(one.error_code, one.name, one.topic_id, one.topic_authorized_operations) for one in response.topics] == [
        (ErrorCode.unknown_topic_id, None, UUID(int=77), NOT_REQUESTED),
        (ErrorCode.none, "orders", known, ALL_TOPIC_OPERATIONS),
    ]


def test_neither_name_nor_id_is_a_server_error_as_in_kafka(broker: FakeBroker) -> None:
    response = request_metadata(broker, 13, (None,))
    assert response.error_code is ErrorCode.unknown_server_error
    assert [(one.error_code, one.name) for one in response.topics] == [(ErrorCode.unknown_server_error, "")]


@pytest.mark.parametrize(("version", "expected"), [(8, ALL_CLUSTER_OPERATIONS), (10, ALL_CLUSTER_OPERATIONS)])
def test_authorized_operations(broker: FakeBroker, version: int, expected: int) -> None:
    broker.add_topic("orders")
    requested = request_metadata(
        broker,
        version,
        ("orders", "gone"),
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    assert requested.cluster_authorized_operations == expected
    assert {topic.topic_authorized_operations for topic in requested.topics} == {ALL_TOPIC_OPERATIONS}
    not_requested = request_metadata(broker, version, ("orders",))
    assert not_requested.cluster_authorized_operations == NOT_REQUESTED
    assert not_requested.topics[0].topic_authorized_operations == NOT_REQUESTED


class TestBrokersThatAreAway:
    @pytest.mark.parametrize(
        ("version", "expected"),
        [(0, ErrorCode.leader_not_available), (5, ErrorCode.leader_not_available), (6, ErrorCode.leader_not_available)],
    )
    def test_partition_without_leader(self, broker: FakeBroker, version: int, expected: ErrorCode) -> None:
        broker.add_topic("orders", state=partition_image(leader=-1, leader_epoch=4))
        (partition,) = request_metadata(broker, version, ("orders",)).topics[0].partitions
        assert (partition.error_code, partition.leader_id) == (expected, -1)

    @pytest.mark.parametrize(
        ("version", "expected"), [(5, ErrorCode.leader_not_available), (6, ErrorCode.listener_not_found)]
    )
    def test_leader_without_the_listener(self, broker: FakeBroker, version: int, expected: ErrorCode) -> None:
        broker.add_topic("orders")
        (partition,) = request_metadata(broker, version, ("orders",), listener="EXTERNAL").topics[0].partitions
        assert (partition.error_code, partition.leader_id) == (expected, -1)

    def test_offline_replicas(self, broker: FakeBroker) -> None:
        broker.set_brokers(broker_image(1), broker_image(2, fenced=True), broker_image(3))
        directories = (UUID(int=1000), UUID(int=1000), UUID(int=4711), None)
        state = partition_image(replicas=(1, 2, 3, 4), directories=directories, isr=(1, 2))
        broker.add_topic("orders", state=state)
        response = request_metadata(broker, 9, ("orders",))
        (partition,) = response.topics[0].partitions
        # 2 is fenced, 3 lost the directory, 4 never registered.
        assert (partition.error_code, partition.offline_replicas) == (ErrorCode.none, (2, 3, 4))
        assert partition.replica_nodes == (1, 2, 3, 4)
        assert [one.node_id for one in response.brokers] == [1, 3]

    def test_version_0_omits_unreachable_replicas(self, broker: FakeBroker) -> None:
        broker.set_brokers(broker_image(1), broker_image(2, fenced=True))
        broker.add_topic("orders", state=partition_image(replicas=(1, 2), directories=(None, None), isr=(1,)))
        (partition,) = request_metadata(broker, 0, ("orders",)).topics[0].partitions
        assert (partition.error_code, partition.replica_nodes) == (ErrorCode.replica_not_available, (1,))

    @pytest.mark.parametrize("version", ALL_VERSIONS)
    def test_unresponsive_leader_is_not_returned(self, broker: FakeBroker, version: int) -> None:
        """Apache Kafka names it until it is fenced, seconds later. The broker itself stays in the list."""
        broker.set_brokers(broker_image(1), broker_image(2))
        both = {"replicas": (1, 2), "directories": (None, None), "isr": (1, 2)}
        broker.add_topic("orders", state=partition_image(leader=2, **both))
        broker.add_topic("payments", state=partition_image(leader=1, **both))
        broker.unreachable = {2}
        response = request_metadata(broker, version, ("orders", "payments"))
        named = {
            topic.name: (topic.partitions[0].error_code, topic.partitions[0].leader_id) for topic in response.topics
        }
        assert named == {"orders": (ErrorCode.leader_not_available, -1), "payments": (ErrorCode.none, 1)}
        assert [one.node_id for one in response.brokers] == [1, 2]

    def test_metadata_without_live_brokers(self, broker: FakeBroker) -> None:
        broker.set_brokers(broker_image(1, fenced=True))
        response = request_metadata(broker, 13, None)
        assert (response.brokers, response.controller_id) == ((), -1)


class TestAutomaticCreation:
    def test_auto_creation_responds_with_unknown_topic(self, broker: FakeBroker) -> None:
        broker.add_topic("orders")
        response = request_metadata(broker, 12, ("new", "a/b", "orders"), allow_auto_topic_creation=True)
        assert [(one.name, one.error_code) for one in response.topics] == [
            ("orders", ErrorCode.none),
            ("a/b", ErrorCode.invalid_topic_exception),
            ("new", ErrorCode.unknown_topic_or_partition),
        ]
        ((api_key, version, request),) = broker.controller.requests
        assert (api_key, version) == (19, 7)
        assert [(one.name, one.num_partitions, one.replication_factor) for one in request.topics] == [("new", -1, -1)]

    @pytest.mark.parametrize("version", [0, 3])
    def test_old_versions_always_allow_auto_creation(self, broker: FakeBroker, version: int) -> None:
        request_metadata(broker, version, ("new",))
        assert len(broker.controller.requests) == 1

    def test_auto_created_topic_has_the_configured_partitions_and_replicas(self, tmp_path: Path) -> None:
        broker = FakeBroker(tmp_path, {"num.partitions": "6", "offsets.topic.num.partitions": "8"})
        request_metadata(broker, 9, ("new", "__consumer_offsets"), allow_auto_topic_creation=True)
        plain, offsets = broker.controller.requests[0][2].topics
        assert (plain.num_partitions, plain.configs) == (6, ())
        assert (offsets.num_partitions, offsets.replication_factor) == (8, 3)
        assert {one.name: one.value for one in offsets.configs} == {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": "104857600",
        }

    def test_auto_creation_needs_broker_and_client(self, tmp_path: Path) -> None:
        broker = FakeBroker(tmp_path, {"auto.create.topics.enable": "false"})
        response = request_metadata(broker, 9, ("new",), allow_auto_topic_creation=True)
        assert errors(response) == {"new": ErrorCode.unknown_topic_or_partition}
        assert broker.controller.requests == []

    def test_invalid_topic_name_is_not_sent_to_the_controller(self, broker: FakeBroker) -> None:
        request_metadata(broker, 9, ("x" * 250, "a b"), allow_auto_topic_creation=True)
        assert broker.controller.requests == []

    def test_failed_auto_creation_is_logged(self, broker: FakeBroker, caplog: pytest.LogCaptureFixture) -> None:
        broker.controller.error = ErrorCode.invalid_replication_factor
        response = request_metadata(broker, 9, ("new",), allow_auto_topic_creation=True)
        assert errors(response) == {"new": ErrorCode.unknown_topic_or_partition}
        assert "INVALID_REPLICATION_FACTOR" in caplog.text

import socket

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.address import Address
from odradek.client.cluster import Cluster
from odradek.client.errors import ConnectionFailed, NotYet, TimedOut, UnknownTopic, Unreachable
from tests.unit.client.scripted_broker import CLOSE_CONNECTION, METADATA, ScriptedBroker, in_turn


def closed_address() -> Address:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return Address(*listener.getsockname())


def test_any_broker_of_the_bootstrap_list_is_used() -> None:
    with ScriptedBroker({}, {METADATA: (0, 12)}) as broker:
        broker.handlers[METADATA] = broker.metadata({"orders": 3})
        with Cluster([closed_address(), broker.address]) as cluster:
            layout = cluster.layout(None)
    assert layout.cluster_id == "scripted"
    assert [partition.id for partition in layout.topics["orders"].partitions] == [0, 1, 2]


def test_unreachable_brokers_are_reported_at_once_with_all_reasons() -> None:
    first, second = closed_address(), closed_address()
    with Cluster([first, second], timeout_s=60) as cluster, pytest.raises(Unreachable) as caught:
        cluster.retry("querying", cluster.layout)
    assert str(first) in str(caught.value)
    assert str(second) in str(caught.value)


def test_unknown_topic_errors_contain_the_existing_topics() -> None:
    with ScriptedBroker({}, {METADATA: (0, 12)}) as broker:
        broker.handlers[METADATA] = broker.metadata({"orders": 1, "payments": 1})
        with Cluster([broker.address]) as cluster, pytest.raises(UnknownTopic) as caught:
            cluster.topics(["order"])
    assert caught.value.known == ("orders", "payments")


def test_a_failed_connection_is_reopened() -> None:
    with ScriptedBroker({}, {METADATA: (0, 12)}) as broker:
        there = broker.metadata({})
        broker.handlers[METADATA] = in_turn([there, lambda *_: CLOSE_CONNECTION, there])
        with Cluster([broker.address]) as cluster:
            cluster.layout()
            assert cluster.retry("querying", cluster.layout).brokers.keys() == {1}
    assert len(broker.requests) == 3


def test_retriable_errors_are_retried_until_the_deadline() -> None:
    attempts = []

    def refuse() -> None:
        attempts.append(1)
        raise KafkaError(ErrorCode.not_controller, "election under way")

    with Cluster([closed_address()], timeout_s=1.0) as cluster, pytest.raises(TimedOut, match="election under way"):
        cluster.retry("querying", refuse)
    assert len(attempts) > 2


def test_not_yet_is_retried() -> None:
    reasons = iter((NotYet("broker 2 is not there"), None))

    def query() -> str:
        reason = next(reasons)
        if reason:
            raise reason
        return "there"

    with Cluster([closed_address()]) as cluster:
        assert cluster.retry("querying", query) == "there"


def test_other_errors_are_not_retried() -> None:
    attempts = []

    def refuse() -> None:
        attempts.append(1)
        raise KafkaError(ErrorCode.invalid_config, "no")

    with Cluster([closed_address()]) as cluster, pytest.raises(KafkaError, match="no"):
        cluster.retry("querying", refuse)
    assert attempts == [1]


def test_a_broker_missing_from_metadata_is_not_available() -> None:
    with ScriptedBroker({}, {METADATA: (0, 12)}) as broker:
        broker.handlers[METADATA] = broker.metadata({})
        with Cluster([broker.address]) as cluster, pytest.raises(KafkaError, match="broker 9"):
            cluster.address_of(9)


def test_connection_errors_contain_the_address() -> None:
    address = closed_address()
    with Cluster([address]) as cluster, pytest.raises(ConnectionFailed, match=str(address.port)):
        cluster.connection(address)

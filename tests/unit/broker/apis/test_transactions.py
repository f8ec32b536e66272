"""The APIs of transactions, each version, on a real coordinator and real partitions."""

from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.core.transactions.commands import ProducerIdentity
from tests.record_batches import TestRecord
from tests.unit.broker.fake_broker import FakeBroker
from tests.unit.broker.transactions_port import HostedTransactions

ADD_PARTITIONS, ADD_OFFSETS, END, MARKERS, DESCRIBE, LIST = 24, 25, 26, 27, 65, 66
NONE = ErrorCode.none


@pytest.fixture
def producer(broker: FakeBroker) -> ProducerIdentity:
    broker.transactions = HostedTransactions()
    broker.add_topic("t", 3)
    identity: ProducerIdentity = broker.transactions.harness.init("x").producer
    return identity


class _Groups:
    def partition_of(self, group_id: str) -> int:
        return len(group_id)


def add(
    broker: FakeBroker, producer: ProducerIdentity, version: int, **topics: list[int]
) -> dict[tuple[str, int], ErrorCode]:
    requested = [{"name": name, "partitions": indexes} for name, indexes in topics.items()]
    if version < 4:
        fields: dict[str, Any] = {
            "v3_and_below_transactional_id": "x",
            "v3_and_below_producer_id": producer.producer_id,
            "v3_and_below_producer_epoch": producer.producer_epoch,
            "v3_and_below_topics": requested,
        }
        results = broker.request(ADD_PARTITIONS, version, **fields).results_by_topic_v3_and_below
    else:
        one = {
            "transactional_id": "x",
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "verify_only": False,
            "topics": requested,
        }
        (result,) = broker.request(ADD_PARTITIONS, version, transactions=[one]).results_by_transaction
        results = result.topic_results
    return {
        (topic.name, one.partition_index): one.partition_error_code
        for topic in results
        for one in topic.results_by_partition
    }


@pytest.mark.parametrize("version", range(6))
def test_add_partitions_to_txn(broker: FakeBroker, producer: ProducerIdentity, version: int) -> None:
    assert add(broker, producer, version, t=[0, 2]) == {("t", 0): NONE, ("t", 2): NONE}
    metadata = broker.transactions.harness.coordinator.get("x").metadata
    assert metadata.partitions == {TopicPartition("t", 0), TopicPartition("t", 2)}
    assert metadata.client_version == (0 if version < 4 else 2)


@pytest.mark.parametrize("version", [0, 3, 5])
def test_unknown_partition_fails_all_partitions_of_the_request(
    broker: FakeBroker, producer: ProducerIdentity, version: int
) -> None:
    assert add(broker, producer, version, t=[0], gone=[1]) == {
        ("t", 0): ErrorCode.operation_not_attempted,
        ("gone", 1): ErrorCode.unknown_topic_or_partition,
    }
    assert broker.transactions.harness.state("x") == "Empty"


def test_producers_cannot_add_internal_topics(broker: FakeBroker, producer: ProducerIdentity) -> None:
    broker.add_topic("__consumer_offsets", 1)
    refused = {("__consumer_offsets", 0): ErrorCode.topic_authorization_failed}
    assert add(broker, producer, 3, __consumer_offsets=[0]) == refused
    assert add(broker, producer, 4, __consumer_offsets=[0]) == {("__consumer_offsets", 0): NONE}


@pytest.mark.parametrize(
    ("version", "expected"), [(1, ErrorCode.invalid_producer_epoch), (2, ErrorCode.producer_fenced)]
)
def test_fenced_producer_cannot_add_partitions(
    broker: FakeBroker, producer: ProducerIdentity, version: int, expected: ErrorCode
) -> None:
    assert add(broker, producer._replace(producer_epoch=9), version, t=[0]) == {("t", 0): expected}


def test_add_partitions_of_many_transactions(broker: FakeBroker, producer: ProducerIdentity) -> None:
    add(broker, producer, 3, t=[0])
    producer_fields = {"producer_id": 1000, "producer_epoch": 0, "verify_only": True}
    topics = [{"name": "t", "partitions": [0, 1]}]
    transactions = [{"transactional_id": name, **producer_fields, "topics": topics} for name in ("x", "y", "")]
    results = broker.request(ADD_PARTITIONS, 4, transactions=transactions).results_by_transaction
    assert [
        [one.partition_error_code for topic in result.topic_results for one in topic.results_by_partition]
        for result in results
    ] == [
        [NONE, ErrorCode.transaction_abortable],
        [ErrorCode.invalid_producer_id_mapping] * 2,
        [ErrorCode.invalid_request] * 2,
    ]
    assert broker.request(ADD_PARTITIONS, 4, transactions=[]).results_by_transaction == ()


@pytest.mark.parametrize("version", range(5))
def test_add_offsets_to_txn(broker: FakeBroker, producer: ProducerIdentity, version: int) -> None:
    broker.groups = _Groups()
    fields = {"transactional_id": "x", "producer_id": 1000, "producer_epoch": 0, "group_id": "four"}
    assert broker.request(ADD_OFFSETS, version, **fields).error_code is NONE
    metadata = broker.transactions.harness.coordinator.get("x").metadata
    assert metadata.partitions == {TopicPartition("__consumer_offsets", 4)}


@pytest.mark.parametrize("version", range(6))
def test_end_txn(broker: FakeBroker, producer: ProducerIdentity, version: int) -> None:
    add(broker, producer, 3, t=[0])
    fields = {"transactional_id": "x", "producer_id": 1000, "producer_epoch": 0, "committed": True}
    response = broker.request(END, version, **fields)
    assert response.error_code is NONE
    if version >= 5:
        assert (response.producer_id, response.producer_epoch) == (1000, 1)
    assert broker.transactions.harness.markers[-1].producer_epoch == (1 if version >= 5 else 0)
    assert broker.request(END, version, **(fields | {"producer_epoch": 7})).error_code is (
        ErrorCode.invalid_producer_epoch
        if version < 2
        else ErrorCode.producer_fenced
        if version < 5
        else ErrorCode.concurrent_transactions
    )


# ---- markers


def write_markers(
    broker: FakeBroker, version: int = 2, *, epoch: int = 0, **fields: Any
) -> dict[tuple[str, int], ErrorCode]:
    marker = {
        "producer_id": 7,
        "producer_epoch": epoch,
        "transaction_result": True,
        "topics": [{"name": "t", "partition_indexes": [0, 1]}, {"name": "gone", "partition_indexes": [0]}],
        "coordinator_epoch": 3,
        "transaction_version": 0,
    } | fields
    (result,) = broker.request(MARKERS, version, markers=[marker]).markers
    assert result.producer_id == 7
    return {(topic.name, one.partition_index): one.error_code for topic in result.topics for one in topic.partitions}


def begin(broker: FakeBroker, epoch: int = 0) -> None:
    broker.append("t", TestRecord(b"open"), attributes=0x10, producer_id=7, producer_epoch=epoch, base_sequence=0)


@pytest.mark.parametrize("version", [1, 2])
def test_write_txn_markers_ends_open_transactions(broker: FakeBroker, version: int) -> None:
    broker.add_topic("t", 2)
    begin(broker)
    partition = broker.partition("t", 0)
    assert partition is not None
    assert partition.last_stable_offset == 0
    assert write_markers(broker, version) == {
        ("t", 0): NONE,
        ("t", 1): NONE,
        ("gone", 0): ErrorCode.unknown_topic_or_partition,
    }
    assert partition.last_stable_offset == 2


def test_markers_of_an_old_epoch_are_rejected(broker: FakeBroker) -> None:
    broker.add_topic("t", 2)
    begin(broker, epoch=4)
    assert write_markers(broker, epoch=3)["t", 0] is ErrorCode.invalid_producer_epoch
    assert write_markers(broker, epoch=4, transaction_version=2)["t", 0] is ErrorCode.invalid_producer_epoch
    assert write_markers(broker, epoch=5, transaction_version=2)["t", 0] is NONE
    fenced = ErrorCode.transaction_coordinator_fenced
    assert write_markers(broker, epoch=5, coordinator_epoch=2)["t", 0] is fenced
    assert broker.request(MARKERS, 2, markers=[]).markers == ()


# ---- views


def test_describe_transactions(broker: FakeBroker, producer: ProducerIdentity) -> None:
    broker.transactions.harness.init("idle")
    add(broker, producer, 3, t=[2, 0])
    states = broker.request(DESCRIBE, 0, transactional_ids=["x", "idle", "gone", ""]).transaction_states
    assert [one.error_code for one in states] == [
        NONE,
        NONE,
        ErrorCode.transactional_id_not_found,
        ErrorCode.invalid_request,
    ]
    opened, idle = states[:2]
    assert (opened.transaction_state, opened.producer_id, opened.producer_epoch) == ("Ongoing", 1000, 0)
    assert [(topic.topic, topic.partitions) for topic in opened.topics] == [("t", (0, 2))]
    assert opened.transaction_start_time.timestamp() == 1_000
    assert (idle.transaction_state, idle.transaction_start_time) == ("Empty", None)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_list_transactions(broker: FakeBroker, producer: ProducerIdentity, version: int) -> None:
    broker.transactions.harness.init("idle")
    add(broker, producer, 3, t=[0])
    response = broker.request(LIST, version, state_filters=["Ongoing", "Odd"], producer_id_filters=[])
    assert [(one.transactional_id, one.producer_id) for one in response.transaction_states] == [("x", 1000)]
    assert response.unknown_state_filters == ("Odd",)
    if version >= 1:
        fields = {"state_filters": [], "producer_id_filters": [], "duration_filter": 10_000_000}
        assert broker.request(LIST, version, **fields).transaction_states == ()
    if version == 2:
        fields = {"state_filters": [], "producer_id_filters": [], "transactional_id_pattern": "idle"}
        assert [one.transactional_id for one in broker.request(LIST, 2, **fields).transaction_states] == ["idle"]

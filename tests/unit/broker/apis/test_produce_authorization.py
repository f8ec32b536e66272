"""Produce by clients that may not write every topic or transaction."""

import asyncio
from collections.abc import Sequence
from inspect import isawaitable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.core.security.resources import Operation, ResourceType
from odradek.server.context import CLOSE_CONNECTION, RequestContext
from odradek.storage.partition.rejected_batches import RejectedBeforeCreation
from odradek.wire.apis import BROKER_APIS, load_handler
from odradek.wire.produce_codec import PartitionRecords, ProduceRequest, TopicRecords
from odradek.wire.schemas import schema
from tests.record_batches import TRANSACTIONAL, TestRecord, batch
from tests.unit.broker.fake_broker import FakeBroker
from tests.unit.broker.transactions_port import HostedTransactions
from tests.unit.fake_access import FakeAccess, Grant

PRODUCE, BY_ID = 0, 13
NONE = ErrorCode.none
TOPIC_DENIED, TXN_DENIED = ErrorCode.topic_authorization_failed, ErrorCode.transactional_id_authorization_failed
WRITE_X: Grant = (Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "x")


def write(topic: str) -> Grant:
    return Operation.WRITE, ResourceType.TOPIC, topic


@pytest.fixture
def broker(tmp_path: Path) -> FakeBroker:
    broker = FakeBroker(tmp_path)
    broker.rejected_before_creation = RejectedBeforeCreation()  # type: ignore[attr-defined]
    broker.transactions = HostedTransactions()
    for name in ("orders", "secret"):
        broker.add_topic(name, 2)
    return broker


def records(index: int = 0, **header: Any) -> PartitionRecords:
    return PartitionRecords(index, memoryview(bytearray(batch(TestRecord(), **header))))


def transactional(index: int = 0) -> PartitionRecords:
    return records(index, attributes=TRANSACTIONAL, producer_id=1000, producer_epoch=0, base_sequence=0)


def produce(
    broker: FakeBroker,
    topics: dict[str, Sequence[PartitionRecords]],
    *,
    version: int = 9,
    acks: int = 1,
    transactional_id: str | None = None,
) -> Any:
    """By topic and partition the error and the base offset; or what the handler returned instead."""
    named = [
        TopicRecords(None, broker.image.topics_by_name[name].id, list(parts))
        if version >= BY_ID
        else TopicRecords(name, None, list(parts))
        for name, parts in topics.items()
    ]
    messages = schema(PRODUCE, version)
    context = RequestContext(PRODUCE, version, "test", "PLAINTEXT", "127.0.0.1", messages, access=broker.access)
    request = ProduceRequest(transactional_id, acks, 1000, named)

    async def work() -> Any:
        response = load_handler(BROKER_APIS[PRODUCE]).handle(request, context, broker)
        if isinstance(response, DeferredResponse):
            return await response.wait()
        return await response if isawaitable(response) else response

    data = asyncio.run(work())
    if not isinstance(data, bytes | list):
        return data
    names = {topic.id: name for name, topic in broker.image.topics_by_name.items()}
    response, _ = messages.read_response(data if isinstance(data, bytes) else b"".join(data), 0)
    return {
        (topic.name if version < BY_ID else names[topic.topic_id], one.index): (one.error_code, one.base_offset)
        for topic in response.responses
        for one in topic.partition_responses
    }


def end_offset(broker: FakeBroker, topic: str, index: int = 0) -> int:
    partition = broker.partition(topic, index)
    assert partition is not None
    return partition.log.log_end_offset


@pytest.mark.parametrize("version", [3, 9, 13])
def test_one_topic(broker: FakeBroker, version: int) -> None:
    access = FakeAccess(write("orders"))
    broker.access = access
    assert produce(broker, {"orders": [records()]}, version=version) == {("orders", 0): (NONE, 0)}
    assert produce(broker, {"secret": [records()]}, version=version) == {("secret", 0): (TOPIC_DENIED, -1)}
    assert end_offset(broker, "secret") == 0
    assert access.logged_denials() == [write("secret")]


@pytest.mark.parametrize("version", [3, 9, 13])
def test_other_topics_are_written(broker: FakeBroker, version: int) -> None:
    access = FakeAccess(write("orders"))
    broker.access = access
    topics = {"secret": [records(0), records(1)], "orders": [records(0), records(1)]}
    assert produce(broker, topics, version=version) == {
        ("secret", 0): (TOPIC_DENIED, -1),
        ("secret", 1): (TOPIC_DENIED, -1),
        ("orders", 0): (NONE, 0),
        ("orders", 1): (NONE, 0),
    }
    assert len(access.requests) == 2


def test_denied_topic_looks_like_a_missing_one(broker: FakeBroker) -> None:
    broker.access = FakeAccess(write("missing"))
    assert produce(broker, {"gone": [records()], "secret": [records()], "missing": [records()]}) == {
        ("gone", 0): (TOPIC_DENIED, -1),
        ("secret", 0): (TOPIC_DENIED, -1),
        ("missing", 0): (ErrorCode.unknown_topic_or_partition, -1),
    }


def test_unknown_topic_id_is_not_checked(broker: FakeBroker) -> None:
    access = FakeAccess()
    messages = schema(PRODUCE, BY_ID)
    context = RequestContext(PRODUCE, BY_ID, "test", "PLAINTEXT", "127.0.0.1", messages, access=access)
    request = ProduceRequest(None, 1, 1000, [TopicRecords(None, UUID(int=77), [records()])])
    data = load_handler(BROKER_APIS[PRODUCE]).handle(request, context, broker)
    response, _ = messages.read_response(data, 0)
    assert response.responses[0].partition_responses[0].error_code is ErrorCode.unknown_topic_id
    assert access.requests == []


def test_denied_topic_is_rejected_before_its_records_are_read(broker: FakeBroker) -> None:
    broker.access = FakeAccess()
    broken = PartitionRecords(0, memoryview(bytearray(b"not a batch at all, but long enough for a header" * 3)))
    assert produce(broker, {"secret": [broken]}) == {("secret", 0): (TOPIC_DENIED, -1)}


def test_acks_0_with_a_denied_topic_closes_the_connection(broker: FakeBroker) -> None:
    broker.access = FakeAccess(write("orders"))
    assert produce(broker, {"orders": [records()]}, acks=0) is None
    assert produce(broker, {"orders": [records()], "secret": [records()]}, acks=0) is CLOSE_CONNECTION
    assert end_offset(broker, "orders") == 2


# ---- transactions


def test_transactional_batch_needs_its_transactional_id(broker: FakeBroker) -> None:
    access = FakeAccess(write("orders"), write("secret"))
    broker.access = access
    topics = {"secret": [records()], "orders": [records(0), transactional(1)]}
    denied = dict.fromkeys((("secret", 0), ("orders", 0), ("orders", 1)), (TXN_DENIED, -1))
    assert produce(broker, topics, transactional_id="x") == denied
    # The transaction is checked before any topic.
    assert [one[:3] for one in access.requests] == [WRITE_X]
    assert (end_offset(broker, "orders"), end_offset(broker, "secret")) == (0, 0)


def test_transactional_batch_without_transactional_id_is_denied_without_a_check(broker: FakeBroker) -> None:
    access = FakeAccess(write("orders"), WRITE_X)
    broker.access = access
    topics = {"orders": [records(0), transactional(1)]}
    assert produce(broker, topics) == {("orders", 0): (TXN_DENIED, -1), ("orders", 1): (TXN_DENIED, -1)}
    assert access.requests == []


def test_transactional_id_without_transactional_batch_is_not_checked(broker: FakeBroker) -> None:
    broker.access = FakeAccess(write("orders"))
    assert produce(broker, {"orders": [records()]}, transactional_id="x") == {("orders", 0): (NONE, 0)}


@pytest.mark.parametrize("version", [9, 12])
def test_allowed_transaction_is_verified_and_written(broker: FakeBroker, version: int) -> None:
    """The client needs no permission to add the partition to its transaction: the broker does that since version 12."""
    identity = broker.transactions.harness.init("x").producer
    assert identity.producer_id == 1000
    access = FakeAccess(write("orders"), WRITE_X)
    broker.access = access
    found = produce(broker, {"orders": [transactional()]}, version=version, transactional_id="x")
    ((error, _),) = found.values()
    assert error is (NONE if version == 12 else ErrorCode.invalid_txn_state)
    assert [one[:3] for one in access.requests] == [WRITE_X, write("orders")]


def test_denied_transaction_with_acks_0_closes_the_connection(broker: FakeBroker) -> None:
    broker.access = FakeAccess(write("orders"))
    assert produce(broker, {"orders": [transactional()]}, acks=0, transactional_id="x") is CLOSE_CONNECTION


# ---- many partitions


@pytest.mark.parametrize("is_transaction", [False, True])
def test_many_partitions(broker: FakeBroker, is_transaction: bool) -> None:
    access = FakeAccess(write("orders"))
    broker.access = access
    denied = [records(index) for index in range(600)]
    last = transactional(1) if is_transaction else records(1)
    found = produce(broker, {"secret": denied, "orders": [records(0), last]}, transactional_id="x")
    assert len(found) == 602
    if is_transaction:
        assert set(found.values()) == {(TXN_DENIED, -1)}
        assert [one[:3] for one in access.requests] == [WRITE_X]
    else:
        assert {found["secret", index] for index in range(600)} == {(TOPIC_DENIED, -1)}
        assert found["orders", 0] == found["orders", 1] == (NONE, 0)
        assert len(access.requests) == 2


def test_many_denied_partitions_with_acks_0_close_the_connection(broker: FakeBroker) -> None:
    broker.access = FakeAccess()
    many = [records(index) for index in range(600)]
    assert produce(broker, {"secret": many}, acks=0) is CLOSE_CONNECTION

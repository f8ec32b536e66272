from types import SimpleNamespace
from typing import Any

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.client.connection import milliseconds
from odradek.client.consume import AbortedFilter, Consumer
from odradek.client.errors import TimedOut
from odradek.records.batch import parse_header
from odradek.records.builder import build_batch
from odradek.records.control import EndTransactionMarker, encode_control
from odradek.records.record import Record
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema
from tests.unit.client.scripted_broker import CLOSE_CONNECTION, METADATA, ScriptedBroker, in_turn

VERSIONS = {ApiKey.FETCH: (4, 18), METADATA: (0, 13)}
ORDERS = TopicPartition("orders", 0)


def fetched(records: bytes, *, code: ErrorCode = ErrorCode.none, aborted: Any = None) -> Any:
    def handle(request: Message, chosen: Schema) -> Message:
        (topic,) = request.topics
        data = chosen.new(
            "PartitionData",
            partition_index=topic.partitions[0].partition,
            error_code=code,
            high_watermark=1000,
            last_stable_offset=1000,
            log_start_offset=0,
            aborted_transactions=tuple(
                chosen.new("AbortedTransaction", producer_id=producer, first_offset=first)
                for producer, first in aborted or ()
            ),
            preferred_read_replica=-1,
            records=records,
        )
        found = chosen.new(
            "FetchableTopicResponse",
            topic=getattr(topic, "topic", None),
            topic_id=getattr(topic, "topic_id", None),
            partitions=(data,),
        )
        return chosen.new(
            "FetchResponse", throttle_time=milliseconds(0), error_code=ErrorCode.none, session_id=0, responses=(found,)
        )

    return handle


def broker_with(fetch: Any) -> ScriptedBroker:
    broker = ScriptedBroker({ApiKey.FETCH: fetch}, VERSIONS)
    broker.handlers[METADATA] = broker.metadata({"orders": 1})
    return broker


def batch(base_offset: int, *values: bytes, producer_id: int = -1, transactional: bool = False) -> bytes:
    return build_batch(
        [Record(None, value, 5) for value in values],
        base_offset=base_offset,
        producer_id=producer_id,
        is_transactional=transactional,
    )


def marker(offset: int, producer_id: int, *, committed: bool) -> bytes:
    record = encode_control(EndTransactionMarker(committed=committed, coordinator_epoch=0), 5)
    return build_batch([record], base_offset=offset, producer_id=producer_id, is_transactional=True, is_control=True)


def values(found: Any) -> list[bytes]:
    return [consumed.record.value for consumed in found]


@pytest.mark.parametrize("highest", [4, 11, 12, 13, 15, 17, 18])
def test_records_are_fetched_in_every_version(highest: int) -> None:
    with broker_with(fetched(batch(0, b"a", b"b"))) as broker, Cluster([broker.address]) as cluster:
        broker.versions[ApiKey.FETCH] = (4, highest)
        consumer = Consumer(cluster, {ORDERS: 0})
        assert values(consumer.poll(wait_ms=10)) == [b"a", b"b"]
        assert consumer.positions == {ORDERS: 2}


def test_records_before_the_position_are_skipped() -> None:
    with broker_with(fetched(batch(10, b"a", b"b", b"c"))) as broker, Cluster([broker.address]) as cluster:
        consumer = Consumer(cluster, {ORDERS: 11})
        assert values(consumer.poll(wait_ms=10)) == [b"b", b"c"]
        assert consumer.positions == {ORDERS: 13}


def test_a_partial_batch_is_left_for_the_next_fetch() -> None:
    data = batch(0, b"a") + batch(1, b"b")[:-3]
    with broker_with(fetched(data)) as broker, Cluster([broker.address]) as cluster:
        consumer = Consumer(cluster, {ORDERS: 0})
        assert values(consumer.poll(wait_ms=10)) == [b"a"]
        assert consumer.positions == {ORDERS: 1}


def test_corrupt_batches_are_rejected() -> None:
    data = bytearray(batch(0, b"abcdef"))
    data[-3] ^= 1
    with (
        broker_with(fetched(bytes(data))) as broker,
        Cluster([broker.address], timeout_s=2.0) as cluster,
        pytest.raises(TimedOut, match="corrupt"),
    ):
        Consumer(cluster, {ORDERS: 0}).poll(wait_ms=10)


def test_control_records_advance_the_position_and_are_not_returned() -> None:
    data = marker(0, 7, committed=True)
    with broker_with(fetched(data)) as broker, Cluster([broker.address]) as cluster:
        consumer = Consumer(cluster, {ORDERS: 0})
        assert consumer.poll(wait_ms=10) == []
        assert consumer.positions == {ORDERS: 1}


def test_read_committed_skips_aborted_transactions() -> None:
    data = (
        batch(0, b"aborted", producer_id=7, transactional=True)
        + batch(1, b"plain")
        + batch(2, b"committed", producer_id=8, transactional=True)
        + marker(3, 7, committed=False)
        + marker(4, 8, committed=True)
        + batch(5, b"later", producer_id=7, transactional=True)
        + marker(6, 7, committed=True)
    )
    with broker_with(fetched(data, aborted=[(7, 0)])) as broker, Cluster([broker.address]) as cluster:
        consumer = Consumer(cluster, {ORDERS: 0}, read_committed=True)
        assert values(consumer.poll(wait_ms=10)) == [b"plain", b"committed", b"later"]
        assert consumer.positions == {ORDERS: 7}
        consumer = Consumer(cluster, {ORDERS: 0})
        assert values(consumer.poll(wait_ms=10)) == [b"aborted", b"plain", b"committed", b"later"]


def test_an_aborted_transaction_from_before_the_fetch_is_skipped() -> None:
    aborted = AbortedFilter((SimpleNamespace(producer_id=7, first_offset=3),))
    header = parse_header(batch(10, b"x", producer_id=7, transactional=True))
    assert aborted.drops(header)
    assert not aborted.drops(parse_header(batch(11, b"x", producer_id=7)))


@pytest.mark.parametrize(
    "trouble",
    [fetched(b"", code=ErrorCode.not_leader_or_follower), lambda *_: CLOSE_CONNECTION],
    ids=["moved", "hung up"],
)
def test_retriable_errors_do_not_interrupt_consuming(trouble: Any) -> None:
    with (
        broker_with(in_turn([trouble, fetched(batch(0, b"a"))])) as broker,
        Cluster([broker.address]) as cluster,
    ):
        assert values(Consumer(cluster, {ORDERS: 0}).poll(wait_ms=10)) == [b"a"]


def test_an_offset_out_of_range_is_reported() -> None:
    with (
        broker_with(fetched(b"", code=ErrorCode.offset_out_of_range)) as broker,
        Cluster([broker.address]) as cluster,
        pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"),
    ):
        Consumer(cluster, {ORDERS: 99}).poll(wait_ms=10)

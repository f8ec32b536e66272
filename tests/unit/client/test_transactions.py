"""Transaction requests: new and hanging transactions, and retries."""

from datetime import UTC, datetime
from typing import Any

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.client.connection import milliseconds
from odradek.client.errors import UnknownPartition, UnknownTopic
from odradek.client.hanging_transactions import find_hanging
from odradek.client.transactions import TransactionDescription, Transactions
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema
from tests.unit.client.scripted_broker import METADATA, Handler, ScriptedBroker, in_turn
from tests.unit.client.test_groups import coordinator_at

VERSIONS = {
    METADATA: (0, 12),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    ApiKey.WRITE_TXN_MARKERS: (1, 2),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 2),
}
ORDERS = TopicPartition("orders", 0)
BEGAN_MS = 1_700_000_000_123


def scripted(handlers: dict[int, Handler]) -> ScriptedBroker:
    broker = ScriptedBroker(handlers, VERSIONS)
    broker.handlers.setdefault(METADATA, broker.metadata({"orders": 1}))
    broker.handlers.setdefault(ApiKey.FIND_COORDINATOR, coordinator_at(broker))
    return broker


def cluster_of(broker: ScriptedBroker) -> Cluster:
    return Cluster([broker.address], timeout_s=5.0)


def described(state: str, *, began_ms: int | None = BEGAN_MS, code: ErrorCode = ErrorCode.none) -> Handler:
    def handle(request: Message, chosen: Schema) -> Message:
        topic = chosen.new("TopicData", topic="orders", partitions=(0,))
        return chosen.new(
            "DescribeTransactionsResponse",
            throttle_time=milliseconds(0),
            transaction_states=tuple(
                chosen.new(
                    "TransactionState",
                    error_code=code,
                    transactional_id=name,
                    transaction_state=state,
                    transaction_timeout=milliseconds(60_000),
                    transaction_start_time=None if began_ms is None else datetime.fromtimestamp(began_ms / 1000, UTC),
                    producer_id=4,
                    producer_epoch=2,
                    topics=(topic,) if state == "Ongoing" else (),
                )
                for name in request.transactional_ids
            ),
        )

    return handle


def producers(*states: tuple[int, int, int], code: ErrorCode = ErrorCode.none) -> Handler:
    """Each with its ID, the start offset of its transaction, and the time of its last record."""

    def handle(request: Message, chosen: Schema) -> Message:
        partition = chosen.new(
            "PartitionResponse",
            partition_index=0,
            error_code=code,
            error_message=None,
            active_producers=tuple(
                chosen.new(
                    "ProducerState",
                    producer_id=producer_id,
                    producer_epoch=2,
                    last_sequence=5,
                    last_timestamp=wrote_ms,
                    coordinator_epoch=-1,
                    current_txn_start_offset=start,
                )
                for producer_id, start, wrote_ms in states
            ),
        )
        topic = chosen.new("TopicResponse", name="orders", partitions=(partition,))
        return chosen.new("DescribeProducersResponse", throttle_time=milliseconds(0), topics=(topic,))

    return handle


def listed(*names: str, unknown: tuple[str, ...] = (), code: ErrorCode = ErrorCode.none) -> Handler:
    def handle(request: Message, chosen: Schema) -> Message:
        return chosen.new(
            "ListTransactionsResponse",
            throttle_time=milliseconds(0),
            error_code=code,
            unknown_state_filters=unknown,
            transaction_states=tuple(
                chosen.new("TransactionState", transactional_id=name, producer_id=4, transaction_state="Ongoing")
                for name in names
            ),
        )

    return handle


def markers(code: ErrorCode) -> Handler:
    def handle(request: Message, chosen: Schema) -> Message:
        partition = chosen.new("WritableTxnMarkerPartitionResult", partition_index=0, error_code=code)
        topic = chosen.new("WritableTxnMarkerTopicResult", name="orders", partitions=(partition,))
        marker = chosen.new("WritableTxnMarkerResult", producer_id=4, topics=(topic,))
        return chosen.new("WriteTxnMarkersResponse", markers=(marker,))

    return handle


def test_the_start_time_of_a_transaction() -> None:
    with scripted(
        {ApiKey.DESCRIBE_TRANSACTIONS: in_turn([described("Ongoing"), described("Empty", began_ms=None)])}
    ) as broker:
        transactions = Transactions(cluster_of(broker))
        (ongoing,) = transactions.describe(["t"]).values()
        (empty,) = transactions.describe(["t"]).values()
    assert isinstance(ongoing, TransactionDescription)
    assert isinstance(empty, TransactionDescription)
    assert (ongoing.started_ms, ongoing.is_open, ongoing.partitions) == (BEGAN_MS, True, (ORDERS,))
    assert (empty.started_ms, empty.is_open, empty.timeout_ms) == (None, False, 60_000)


def test_unknown_ids_are_errors_and_loading_coordinators_are_retried() -> None:
    loading = described("", code=ErrorCode.coordinator_load_in_progress)
    unknown = described("", code=ErrorCode.transactional_id_not_found)
    with scripted({ApiKey.DESCRIBE_TRANSACTIONS: in_turn([loading, unknown])}) as broker:
        (handle,) = Transactions(cluster_of(broker)).describe(["t"]).values()
    assert isinstance(handle, KafkaError)
    assert handle.code is ErrorCode.transactional_id_not_found


def test_unknown_states_are_rejected() -> None:
    with (
        scripted({ApiKey.LIST_TRANSACTIONS: listed(unknown=("Odd",))}) as broker,
        pytest.raises(KafkaError, match="unknown transaction state Odd"),
    ):
        Transactions(cluster_of(broker)).listings(states=["Odd"])


def test_listings_are_sorted_and_loading_coordinators_are_retried() -> None:
    loading = listed(code=ErrorCode.coordinator_load_in_progress)
    with scripted({ApiKey.LIST_TRANSACTIONS: in_turn([loading, listed("b", "a")])}) as broker:
        found = Transactions(cluster_of(broker)).listings(duration_ms_min=5, pattern="a|b", producer_ids=[4])
        request = broker.requests[-1]
    assert [one.transactional_id for one in found] == ["a", "b"]
    assert (request.duration_filter, request.transactional_id_pattern, request.producer_id_filters) == (5, "a|b", (4,))


def test_abort_follows_the_leader_and_errors_are_final() -> None:
    turns = [markers(ErrorCode.not_leader_or_follower), markers(ErrorCode.invalid_producer_epoch)]
    with scripted({ApiKey.WRITE_TXN_MARKERS: in_turn(turns)}) as broker:
        with pytest.raises(KafkaError, match="INVALID_PRODUCER_EPOCH"):
            Transactions(cluster_of(broker)).abort(ORDERS, producer_id=4, producer_epoch=2, coordinator_epoch=0)
        sent = [request.markers[0] for request in broker.requests if hasattr(request, "markers")]
    assert len(sent) == 2
    assert (sent[0].producer_id, sent[0].producer_epoch, sent[0].transaction_result) == (4, 2, False)


@pytest.mark.parametrize(
    ("partition", "error"), [(TopicPartition("orders", 9), UnknownPartition), (TopicPartition("x", 0), UnknownTopic)]
)
def test_unknown_partitions(partition: TopicPartition, error: type[Exception]) -> None:
    with scripted({}) as broker, pytest.raises(error):
        Transactions(cluster_of(broker)).producers([partition])


def fenced(code: ErrorCode) -> Handler:
    def handle(request: Message, chosen: Schema) -> Message:
        return chosen.new(
            "InitProducerIdResponse",
            throttle_time=milliseconds(0),
            error_code=code,
            producer_id=4,
            producer_epoch=3,
        )

    return handle


def test_fencing_waits_for_a_concurrent_end() -> None:
    turns = [fenced(ErrorCode.concurrent_transactions), fenced(ErrorCode.none)]
    with scripted({ApiKey.INIT_PRODUCER_ID: in_turn(turns)}) as broker:
        Transactions(cluster_of(broker)).fence("t")
        assert sum(getattr(request, "transactional_id", None) == "t" for request in broker.requests) == 2


@pytest.mark.parametrize(
    ("handlers", "hangs"),
    [
        ({ApiKey.LIST_TRANSACTIONS: listed()}, True),
        ({ApiKey.LIST_TRANSACTIONS: listed("t"), ApiKey.DESCRIBE_TRANSACTIONS: described("Ongoing")}, False),
        ({ApiKey.LIST_TRANSACTIONS: listed("t"), ApiKey.DESCRIBE_TRANSACTIONS: described("CompleteAbort")}, True),
        (
            {
                ApiKey.LIST_TRANSACTIONS: listed("t"),
                ApiKey.DESCRIBE_TRANSACTIONS: described("", code=ErrorCode.transactional_id_not_found),
            },
            True,
        ),
    ],
)
def test_transactions_known_to_their_coordinator_do_not_hang(handlers: dict[int, Handler], hangs: bool) -> None:
    states = producers((4, 17, BEGAN_MS), (5, -1, BEGAN_MS), (6, 30, BEGAN_MS + 10))
    with scripted({**handlers, ApiKey.DESCRIBE_PRODUCERS: states}) as broker:
        found: list[Any] = find_hanging(cluster_of(broker), [ORDERS], broker_id=None, idle_since_ms=BEGAN_MS + 1)
    assert [(one.partition, one.producer.start_offset) for one in found] == ([(ORDERS, 17)] if hangs else [])


def test_coordinators_are_not_queried_without_open_transactions() -> None:
    with scripted({ApiKey.DESCRIBE_PRODUCERS: producers((5, -1, BEGAN_MS))}) as broker:
        assert find_hanging(cluster_of(broker), [ORDERS], broker_id=1, idle_since_ms=BEGAN_MS + 1) == []

"""Oversized transaction requests, and requests of a wrong producer: Kafka's error, and no other client is delayed."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.node_process import NodeProcess
from tests.raw_wire import RawConnection
from tests.wire.plain_requests import codes, create_topic, until
from tests.wire.stall_watch import StallWatch

TOPIC = "bad-transaction-input"
NEIGHBOUR = "a" * 60 + "!"
MANY = 15_000

Fields = dict[str, Any]


@pytest.fixture(scope="session")
def coordinated(broker: NodeProcess) -> NodeProcess:
    with RawConnection(broker.port) as connection:
        assert create_topic(connection, TOPIC, partitions=2) is ErrorCode.none
    return broker


@pytest.fixture
def connection(coordinated: NodeProcess) -> Iterator[RawConnection]:
    with RawConnection(coordinated.port) as opened:
        yield opened


def begin(connection: RawConnection, transactional_id: str) -> Any:
    """Returns a producer ID and epoch as soon as the coordinator assigns them."""
    responses: list[Any] = []

    def has_producer_id() -> bool:
        fields = {"transactional_id": transactional_id, "transaction_timeout": 60_000}
        responses.append(connection.request(Api.INIT_PRODUCER_ID, 4, fields))
        return responses[-1].error_code is ErrorCode.none

    connection.request(Api.FIND_COORDINATOR, 6, {"key_type": 1, "coordinator_keys": [transactional_id]})
    until(has_producer_id, 30, what="a producer id")
    return responses[-1]


def add(connection: RawConnection, transactional_id: str, producer: Any, **others: Any) -> Counter[ErrorCode]:
    fields = {
        "v3_and_below_transactional_id": transactional_id,
        "v3_and_below_producer_id": producer.producer_id,
        "v3_and_below_producer_epoch": producer.producer_epoch,
        "v3_and_below_topics": [{"name": TOPIC, "partitions": [0]}],
        **others,
    }
    return codes(connection.request(Api.ADD_PARTITIONS_TO_TXN, 3, fields))


def state_of(connection: RawConnection, transactional_id: str) -> str:
    listed = connection.request(Api.LIST_TRANSACTIONS, 2, {"transactional_id_pattern": None, "duration_filter": -1})
    (state,) = (one for one in listed.transaction_states if one.transactional_id == transactional_id)
    return str(state.transaction_state)


@pytest.fixture(autouse=True)
def neighbour(coordinated: NodeProcess) -> Iterator[Any]:
    """A producer with an ongoing transaction, which can still be committed at the end."""
    with RawConnection(coordinated.port) as own:
        producer = begin(own, NEIGHBOUR)
        until(lambda: add(own, NEIGHBOUR, producer) == {ErrorCode.none: 1}, 30, what="a transaction")
        yield producer
        assert state_of(own, NEIGHBOUR) == "Ongoing"
        producer_fields = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
        ended = own.request(Api.END_TXN, 3, {"transactional_id": NEIGHBOUR, **producer_fields, "committed": True})
        assert ended.error_code is ErrorCode.none
        until(lambda: state_of(own, NEIGHBOUR) == "CompleteCommit", 30)


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({"v3_and_below_producer_epoch": 99}, ErrorCode.producer_fenced),
        ({"v3_and_below_producer_id": 987_654}, ErrorCode.invalid_producer_id_mapping),
        ({"v3_and_below_transactional_id": "unknown"}, ErrorCode.invalid_producer_id_mapping),
        ({"v3_and_below_transactional_id": ""}, ErrorCode.invalid_request),
        ({"v3_and_below_producer_epoch": -1}, ErrorCode.producer_fenced),
    ],
)
def test_add_partitions_of_a_wrong_producer_is_rejected(
    connection: RawConnection, neighbour: Any, others: Fields, expected: ErrorCode
) -> None:
    assert add(connection, NEIGHBOUR, neighbour, **others) == {expected: 1}


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({"producer_epoch": 99}, ErrorCode.producer_fenced),
        ({"producer_id": 987_654}, ErrorCode.invalid_producer_id_mapping),
        ({"transactional_id": "unknown"}, ErrorCode.invalid_producer_id_mapping),
        ({"transactional_id": ""}, ErrorCode.invalid_request),
    ],
)
def test_end_txn_of_a_wrong_producer_is_rejected(
    connection: RawConnection, neighbour: Any, others: Fields, expected: ErrorCode
) -> None:
    producer_fields = {"producer_id": neighbour.producer_id, "producer_epoch": neighbour.producer_epoch}
    fields = {"transactional_id": NEIGHBOUR, **producer_fields, "committed": False, **others}
    assert connection.request(Api.END_TXN, 3, fields).error_code is expected


@pytest.mark.parametrize("pattern", ["(a+)+$", "((a|aa)*)*b", "(a*)*(a*)*(a*)*!x"])
def test_expensive_transactional_id_patterns_do_not_stall(
    coordinated: NodeProcess, connection: RawConnection, pattern: str
) -> None:
    fields = {"transactional_id_pattern": pattern, "duration_filter": -1}
    if coordinated.name == "kafka":
        assert connection.request(Api.LIST_TRANSACTIONS, 2, fields).error_code is ErrorCode.none
        return
    with StallWatch(coordinated):
        listed = connection.request(Api.LIST_TRANSACTIONS, 2, fields)
    assert (listed.error_code, listed.transaction_states) == (ErrorCode.none, ())


NAMES = [f"crowd-{number}" for number in range(MANY)]
LARGE_REQUESTS: dict[str, tuple[Api, int, Fields, dict[ErrorCode, int]]] = {
    "described ids": (
        Api.DESCRIBE_TRANSACTIONS,
        0,
        {"transactional_ids": NAMES},
        {ErrorCode.transactional_id_not_found: MANY},
    ),
    "filters": (
        Api.LIST_TRANSACTIONS,
        2,
        {"state_filters": ["x" * 100] * 5000, "producer_id_filters": list(range(MANY)), "duration_filter": -1},
        {ErrorCode.none: 1},
    ),
    "partitions that do not exist": (
        Api.ADD_PARTITIONS_TO_TXN,
        3,
        {
            "v3_and_below_transactional_id": "crowd",
            "v3_and_below_topics": [{"name": TOPIC, "partitions": list(range(10, 10 + MANY))}],
        },
        {ErrorCode.unknown_topic_or_partition: MANY},
    ),
    "offsets without a transaction": (
        Api.TXN_OFFSET_COMMIT,
        3,
        {
            "transactional_id": "crowd",
            "group_id": "crowd",
            "generation_id": -1,
            "topics": [
                {"name": "no-such-topic", "partitions": [{"partition_index": one} for one in range(MANY)]},
            ],
        },
        {ErrorCode.unknown_topic_or_partition: MANY},
    ),
    "markers for partitions that do not exist": (
        Api.WRITE_TXN_MARKERS,
        1,
        {
            "markers": [
                {
                    "producer_id": 1,
                    "producer_epoch": 0,
                    "topics": [{"name": TOPIC, "partition_indexes": list(range(10, 10 + MANY))}],
                }
            ]
        },
        {ErrorCode.unknown_topic_or_partition: MANY},
    ),
}


@pytest.mark.parametrize(("api", "version", "fields", "expected"), LARGE_REQUESTS.values(), ids=LARGE_REQUESTS)
def test_large_requests_do_not_stall(
    coordinated: NodeProcess,
    connection: RawConnection,
    api: Api,
    version: int,
    fields: Fields,
    expected: dict[ErrorCode, int],
) -> None:
    if coordinated.name == "kafka":
        assert codes(connection.request(api, version, fields)) == expected
        return
    with StallWatch(coordinated):
        assert codes(connection.request(api, version, fields)) == expected

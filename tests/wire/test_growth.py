"""Topics as large as Kafka allows: created in seconds, every partition served at once, no other client delayed."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.node_process import NodeProcess
from tests.odradek_process import OdradekProcess
from tests.raw_wire import RawConnection
from tests.record_batches import TestRecord, batch
from tests.wire.plain_requests import LATEST, create_topic, now_ms
from tests.wire.stall_watch import Stalled, StallWatch

pytestmark = pytest.mark.tier("proof")

PARTITIONS = 9_000
# What takes two seconds on a quiet machine may take much longer beside other tests.
SECONDS_MAX = 60.0
REQUEST_PARTITIONS = 1_000
ATTEMPTS_MAX = 3


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OdradekProcess]:
    node = OdradekProcess(tmp_path / "node")
    try:
        yield node.start()
    finally:
        node.kill()


def latest_offsets(connection: RawConnection, topic: str, partitions: range) -> set[tuple[ErrorCode, int]]:
    wanted = [{"partition_index": index, "timestamp": LATEST} for index in partitions]
    response = connection.request(
        Api.LIST_OFFSETS, 7, {"replica_id": -1, "topics": [{"name": topic, "partitions": wanted}]}
    )
    return {(ErrorCode(one.error_code), one.offset) for one in response.topics[0].partitions}


def produce_to_each(connection: RawConnection, topic: str, partitions: range) -> set[tuple[ErrorCode, int]]:
    record = batch(TestRecord(b"first"), timestamp=now_ms())
    data = [{"index": index, "records": record} for index in partitions]
    fields = {"acks": -1, "timeout": 60_000, "topic_data": [{"name": topic, "partition_data": data}]}
    response = connection.request(Api.PRODUCE, 9, fields)
    return {(ErrorCode(one.error_code), one.base_offset) for one in response.responses[0].partition_responses}


def in_parts(partitions: int) -> list[range]:
    return [range(first, first + REQUEST_PARTITIONS) for first in range(0, partitions, REQUEST_PARTITIONS)]


def test_topic_of_nine_thousand_partitions_is_served_at_once(node: OdradekProcess) -> None:
    with RawConnection(node.port, timeout_s=SECONDS_MAX) as connection:
        began = time.monotonic()
        assert create_topic(connection, "large", partitions=PARTITIONS) is ErrorCode.none
        created = time.monotonic()
        for part in in_parts(PARTITIONS):
            assert latest_offsets(connection, "large", part) == {(ErrorCode.none, 0)}
        served = time.monotonic()
        for part in in_parts(PARTITIONS):
            assert produce_to_each(connection, "large", part) == {(ErrorCode.none, 0)}
        produced = time.monotonic()
        for part in in_parts(PARTITIONS):
            assert latest_offsets(connection, "large", part) == {(ErrorCode.none, 1)}
    print(
        f"{PARTITIONS:,} partitions: created in {created - began:.1f} s, every leader serving after "
        f"{served - began:.1f} s, a record in each after {produced - began:.1f} s"
    )
    assert served - began < SECONDS_MAX


@pytest.mark.parametrize(("topics", "partitions"), [(1, 5_000), (1_000, 1)])
def test_creating_many_partitions_does_not_stall(node: OdradekProcess, topics: int, partitions: int) -> None:
    stalls: list[str] = []
    with RawConnection(node.port, timeout_s=SECONDS_MAX) as connection:
        while len(stalls) < ATTEMPTS_MAX:
            prefix = f"topic-{len(stalls)}"
            wanted = [
                {"name": f"{prefix}-{number}", "num_partitions": partitions, "replication_factor": 1}
                for number in range(topics)
            ]
            try:
                with StallWatch(node):
                    response = connection.request(Api.CREATE_TOPICS, 7, {"topics": wanted, "timeout": 60_000})
            except Stalled as stalled:
                stalls.append(str(stalled))
            else:
                assert {one.error_code for one in response.topics} == {ErrorCode.none}
                return
    # On a quiet machine the longest stall is half the limit; other load may double it, but not in every attempt.
    raise Stalled(f"in every attempt: {', '.join(stalls)}")


@pytest.mark.parametrize(
    ("partitions", "message"),
    [
        (10_000, "Unable to perform excessively large batch operation."),
        (10_001, "Excessively large number of partitions per request."),
    ],
)
def test_topic_too_large_for_one_controller_batch_is_rejected(
    broker: NodeProcess, topic: str, partitions: int, message: str
) -> None:
    wanted = {"name": topic, "num_partitions": partitions, "replication_factor": 1}
    with RawConnection(broker.port) as connection:
        (response,) = connection.request(Api.CREATE_TOPICS, 7, {"topics": [wanted], "timeout": 10_000}).topics
        assert (response.error_code, response.error_message) == (ErrorCode.policy_violation, message)
        described = connection.request(
            Api.METADATA, 9, {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
        )
    assert described.topics[0].error_code is ErrorCode.unknown_topic_or_partition

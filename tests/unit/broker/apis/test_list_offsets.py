"""Responses equal those of Apache Kafka 4.3.1 to the same requests."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ports import Pool
from tests.record_batches import TestRecord
from tests.unit.broker.fake_broker import FakeBroker, partition_image

T = TypeVar("T")
LIST_OFFSETS = 2
START = 1_700_000_000_000
NOTHING = (ErrorCode.none, -1, -1, -1)


def list_offset(
    broker: FakeBroker,
    timestamp: int,
    *,
    version: int = 11,
    topic: str = "t",
    partition: int = 0,
    epoch: int = -1,
    replica_id: int = -1,
    isolation_level: int = 0,
) -> tuple[ErrorCode, int, int, int]:
    requested = {"partition_index": partition, "current_leader_epoch": epoch, "timestamp": timestamp}
    response = list_offsets(
        broker,
        [{"name": topic, "partitions": [requested]}],
        version=version,
        replica_id=replica_id,
        isolation_level=isolation_level,
    )
    (found,) = response.topics[0].partitions
    return found.error_code, found.timestamp, found.offset, getattr(found, "leader_epoch", -1)


def list_offsets(
    broker: FakeBroker, topics: Any, *, version: int = 11, replica_id: int = -1, isolation_level: int = 0
) -> Any:
    return broker.request(
        LIST_OFFSETS, version, replica_id=replica_id, isolation_level=isolation_level, timeout=1000, topics=topics
    )


@pytest.fixture
def filled(broker: FakeBroker) -> FakeBroker:
    """Timestamps 0, 500, 100 | 200, 205 | 400, after START."""
    broker.add_topic("t")
    broker.append("t", TestRecord(b"a"), TestRecord(b"b", timestamp_delta=500), TestRecord(b"c", timestamp_delta=100))
    broker.append("t", TestRecord(b"d"), TestRecord(b"e", timestamp_delta=5), timestamp=START + 200)
    broker.append("t", TestRecord(b"f"), timestamp=START + 400)
    return broker


@pytest.mark.parametrize(
    ("timestamp", "first_version"), [(-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 12), (-8, 12)]
)
def test_special_timestamps_need_their_minimum_version(filled: FakeBroker, timestamp: int, first_version: int) -> None:
    refused = [
        version
        for version in range(1, 12)
        if list_offset(filled, timestamp, version=version)[0] is ErrorCode.unsupported_version
    ]
    assert refused == list(range(1, min(first_version, 12)))


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (-1, (-1, 0, 0)),
        (-2, (-1, 0, 0)),
        (-3, (-1, -1, -1)),
        (-4, (-1, 0, 0)),
        (-5, (-1, -1, -1)),
        (START, (-1, -1, -1)),
    ],
)
def test_offsets_of_an_empty_partition(broker: FakeBroker, timestamp: int, expected: tuple[int, int, int]) -> None:
    broker.add_topic("t")
    assert list_offset(broker, timestamp) == (ErrorCode.none, *expected)


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (-1, (-1, 6, 0)),
        (-2, (-1, 0, 0)),
        (-3, (START + 500, 1, 0)),
        (-4, (-1, 0, 0)),
        (-5, (-1, -1, -1)),
        (-6, (-1, -1, -1)),
        (0, (START, 0, 0)),
        (START, (START, 0, 0)),
        (START + 1, (START + 500, 1, 0)),
        (START + 201, (START + 500, 1, 0)),
        (START + 500, (START + 500, 1, 0)),
        (START + 501, (-1, -1, -1)),
        (2**62, (-1, -1, -1)),
    ],
)
def test_offsets_of_a_filled_partition(filled: FakeBroker, timestamp: int, expected: tuple[int, int, int]) -> None:
    assert list_offset(filled, timestamp) == (ErrorCode.none, *expected)


def test_no_offset_below_the_log_start_is_returned(filled: FakeBroker) -> None:
    partition = filled.partition("t", 0)
    assert partition is not None
    partition.log.advance_log_start(6)
    assert list_offset(filled, -2) == (ErrorCode.none, -1, 6, 0)
    assert list_offset(filled, START) == NOTHING
    # Kafka does not look at the log start here.
    assert list_offset(filled, -3) == (ErrorCode.none, START + 500, 1, 0)


def test_no_offset_above_the_high_watermark_is_returned(filled: FakeBroker) -> None:
    partition = filled.partition("t", 0)
    assert partition is not None
    partition.shared_high_watermark.offset = 1
    assert list_offset(filled, -1)[2] == 1
    assert list_offset(filled, START + 1) == NOTHING
    assert list_offset(filled, -1, replica_id=5)[2] == 6
    assert list_offset(filled, START + 1, replica_id=5)[2] == 1


def test_read_committed_ends_at_the_last_stable_offset(broker: FakeBroker) -> None:
    broker.add_topic("t")
    broker.append("t", TestRecord(b"a"))
    broker.append(
        "t",
        TestRecord(b"open", timestamp_delta=9),
        attributes=0x10,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
    )
    assert list_offset(broker, -1, isolation_level=1)[2] == 1
    assert list_offset(broker, -1, isolation_level=0)[2] == 2
    assert list_offset(broker, START + 5, isolation_level=1) == NOTHING
    assert list_offset(broker, START + 5, isolation_level=0)[2] == 1
    # A replica sees everything whatever it says of isolation.
    assert list_offset(broker, -1, isolation_level=1, replica_id=3)[2] == 2


def test_unknown_isolation_level_is_rejected(filled: FakeBroker) -> None:
    assert list_offset(filled, -1, isolation_level=2)[0] is ErrorCode.unknown_server_error


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(0, ErrorCode.none), (1, ErrorCode.unknown_leader_epoch), (-2, ErrorCode.fenced_leader_epoch)],
)
def test_current_leader_epoch_is_checked(filled: FakeBroker, epoch: int, expected: ErrorCode) -> None:
    assert list_offset(filled, -1, epoch=epoch)[0] is expected


def test_partitions_without_local_replica(broker: FakeBroker) -> None:
    broker.add_topic("elsewhere", held=False)
    assert list_offset(broker, -1, topic="gone")[0] is ErrorCode.unknown_topic_or_partition
    assert list_offset(broker, -1, topic="a/b")[0] is ErrorCode.unknown_topic_or_partition
    assert list_offset(broker, -1, topic="elsewhere")[0] is ErrorCode.not_leader_or_follower
    assert list_offset(broker, -1, topic="elsewhere", partition=7)[0] is ErrorCode.unknown_topic_or_partition


def test_only_a_debugging_consumer_may_query_followers(broker: FakeBroker) -> None:
    broker.add_topic("t", state=partition_image(leader=2))
    assert list_offset(broker, -1)[0] is ErrorCode.not_leader_or_follower
    assert list_offset(broker, -1, replica_id=-2)[0] is ErrorCode.none


def test_failed_log_dir(filled: FakeBroker) -> None:
    partition = filled.partition("t", 0)
    assert partition is not None
    partition.withdraw(ErrorCode.kafka_storage_error)
    assert list_offset(filled, -1)[0] is ErrorCode.kafka_storage_error


def test_disk_failure_during_a_search(filled: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = filled.partition("t", 0)
    assert partition is not None

    def broken(timestamp: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(partition.log, "offset_for_timestamp", broken)
    assert list_offset(filled, START)[0] is ErrorCode.kafka_storage_error
    assert [directory for directory, _ in filled.failed_log_dirs] == [partition.log_dir]


@pytest.mark.parametrize(
    ("version", "expected"), [(4, ErrorCode.leader_not_available), (5, ErrorCode.offset_not_available)]
)
def test_new_leader_without_high_watermark_responds_offset_not_available(
    filled: FakeBroker, version: int, expected: ErrorCode
) -> None:
    partition = filled.partition("t", 0)
    assert partition is not None
    partition.become_leader(1, 3)
    partition.shared_high_watermark.offset = 2
    assert list_offset(filled, -1, version=version)[0] is expected
    assert list_offset(filled, 2**62, version=version)[0] is expected
    assert list_offset(filled, -2, version=version)[0] is ErrorCode.none
    assert list_offset(filled, START, version=version)[0] is ErrorCode.none


def test_duplicate_partitions_are_rejected_individually(broker: FakeBroker) -> None:
    broker.add_topic("t", 2)

    def part(index: int, timestamp: int = -1) -> dict[str, int]:
        return {"partition_index": index, "current_leader_epoch": -1, "timestamp": timestamp}

    response = list_offsets(
        broker,
        [
            {"name": "t", "partitions": [part(0), part(1), part(0, -2)]},
            {"name": "empty", "partitions": []},
            {"name": "t", "partitions": [part(7)]},
        ],
    )
    (topic,) = response.topics
    assert [(one.partition_index, one.error_code) for one in topic.partitions] == [
        (0, ErrorCode.invalid_request),
        (1, ErrorCode.none),
        (7, ErrorCode.unknown_topic_or_partition),
    ]


@pytest.mark.parametrize("version", range(1, 12))
def test_list_offsets_in_every_version(filled: FakeBroker, version: int) -> None:
    expected_epoch = 0 if version >= 4 else -1
    assert list_offset(filled, START, version=version) == (ErrorCode.none, START, 0, expected_epoch)


class DeletedBefore:
    """The topic, and its files, are gone by the time that the search has its turn."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker

    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
        broker = self._broker
        partition = broker.partition("t", 0)
        assert partition is not None
        partition.withdraw(ErrorCode.unknown_topic_or_partition)
        partition.log.release_files()
        broker.log_dirs.delete(partition.log, 0)
        due_ms = 2 * partition.log.config.file_delete_delay_ms
        broker.log_dirs.in_every_dir(lambda log_dir: log_dir.remove_deleted(due_ms))
        return work()


@pytest.mark.parametrize("timestamp", [START, -3])
def test_deleted_topic_during_a_search_is_not_a_disk_failure(filled: FakeBroker, timestamp: int) -> None:
    filled.executor = DeletedBefore(filled)
    assert list_offset(filled, timestamp)[0] is ErrorCode.not_leader_or_follower
    assert not filled.failed_log_dirs

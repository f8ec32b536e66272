import pytest

from odradek.base.errors import ErrorCode
from tests.record_batches import TestRecord
from tests.unit.broker.fake_broker import FakeBroker

DELETE_RECORDS = 21


def delete(
    broker: FakeBroker, *requested: tuple[int, int], topic: str = "t", version: int = 2
) -> list[tuple[int, int, ErrorCode]]:
    partitions = [{"partition_index": index, "offset": offset} for index, offset in requested]
    response = broker.request(DELETE_RECORDS, version, topics=[{"name": topic, "partitions": partitions}], timeout=1000)
    return [(one.partition_index, one.low_watermark, one.error_code) for one in response.topics[0].partitions]


@pytest.fixture
def filled(broker: FakeBroker) -> FakeBroker:
    broker.add_topic("t", 2)
    for _ in range(6):
        broker.append("t", TestRecord(b"x"))
    return broker


@pytest.mark.parametrize("version", range(3))
def test_log_start_offset_never_decreases(filled: FakeBroker, version: int) -> None:
    assert delete(filled, (0, 2), version=version) == [(0, 2, ErrorCode.none)]
    assert delete(filled, (0, 0), version=version) == [(0, 2, ErrorCode.none)]
    assert delete(filled, (0, -1), version=version) == [(0, 6, ErrorCode.none)]


@pytest.mark.parametrize("offset", [7, -2, 2**62])
def test_offset_above_the_high_watermark_is_rejected(filled: FakeBroker, offset: int) -> None:
    assert delete(filled, (0, offset)) == [(0, -1, ErrorCode.offset_out_of_range)]


def test_partitions_succeed_and_fail_individually(filled: FakeBroker) -> None:
    assert delete(filled, (0, 1), (1, -1), (4, 0)) == [
        (0, 1, ErrorCode.none),
        (1, 0, ErrorCode.none),
        (4, -1, ErrorCode.unknown_topic_or_partition),
    ]


def test_last_offset_of_a_duplicate_partition_applies(filled: FakeBroker) -> None:
    assert delete(filled, (0, 1), (0, 3)) == [(0, 3, ErrorCode.none)]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("compact", ErrorCode.policy_violation),
        ("compact,delete", ErrorCode.none),
        ("delete", ErrorCode.none),
        ("", ErrorCode.none),
    ],
)
def test_compacted_topics_keep_their_records(broker: FakeBroker, policy: str, expected: ErrorCode) -> None:
    broker.add_topic("t", configs={"cleanup.policy": policy})
    assert delete(broker, (0, 0))[0][2] is expected


def test_internal_topics_are_rejected(broker: FakeBroker) -> None:
    broker.add_topic("__consumer_offsets")
    assert delete(broker, (0, 0), topic="__consumer_offsets")[0][2] is ErrorCode.invalid_topic_exception
    assert delete(broker, (0, 0), topic="__transaction_state")[0][2] is ErrorCode.unknown_topic_or_partition


def test_unknown_topics_are_rejected(broker: FakeBroker) -> None:
    broker.add_topic("elsewhere", held=False)
    assert delete(broker, (0, 0), topic="a/b")[0][2] is ErrorCode.unknown_topic_or_partition
    assert delete(broker, (0, 0), topic="elsewhere")[0][2] is ErrorCode.not_leader_or_follower


def test_disk_failure_takes_the_log_dir_offline(filled: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = filled.partition("t", 0)
    assert partition is not None

    def broken(offset: int) -> bool:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(partition.log, "advance_log_start", broken)
    assert delete(filled, (0, 1)) == [(0, -1, ErrorCode.kafka_storage_error)]
    assert [directory for directory, _ in filled.failed_log_dirs] == [partition.log_dir]


def test_empty_delete_records_request(broker: FakeBroker) -> None:
    assert broker.request(DELETE_RECORDS, 2, topics=[], timeout=1000).topics == ()

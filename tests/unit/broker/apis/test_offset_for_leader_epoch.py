import pytest

from odradek.base.errors import ErrorCode
from tests.record_batches import TestRecord
from tests.unit.broker.fake_broker import FakeBroker, partition_image

OFFSET_FOR_LEADER_EPOCH = 23


def end_of_epoch(
    broker: FakeBroker, epoch: int, *, current: int = -1, topic: str = "t", partition: int = 0, version: int = 4
) -> tuple[ErrorCode, int, int]:
    requested = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
    topics = [{"topic": topic, "partitions": [requested]}]
    response = broker.request(OFFSET_FOR_LEADER_EPOCH, version, replica_id=-1, topics=topics)
    (found,) = response.topics[0].partitions
    return found.error_code, found.leader_epoch, found.end_offset


@pytest.fixture
def three_epochs(broker: FakeBroker) -> FakeBroker:
    """Epoch 1 holds 0 and 1, epoch 4 holds 2, epoch 6 nothing yet."""
    broker.add_topic("t", state=partition_image(leader_epoch=1))
    partition = broker.partition("t", 0)
    assert partition is not None
    broker.append("t", TestRecord(b"a"), TestRecord(b"b"))
    partition.become_leader(1, 4)
    broker.append("t", TestRecord(b"c"))
    partition.become_leader(1, 6)
    return broker


@pytest.mark.parametrize("version", range(2, 5))
@pytest.mark.parametrize(
    ("epoch", "found", "end_offset"),
    [(6, 6, 3), (5, 4, 3), (4, 4, 3), (3, 1, 2), (1, 1, 2), (0, 0, 0), (7, -1, -1), (-1, -1, -1), (-5, -5, 0)],
)
def test_end_offsets_of_epochs(three_epochs: FakeBroker, version: int, epoch: int, found: int, end_offset: int) -> None:
    assert end_of_epoch(three_epochs, epoch, version=version) == (ErrorCode.none, found, end_offset)


@pytest.mark.parametrize(
    ("current", "expected"),
    [(6, ErrorCode.none), (5, ErrorCode.fenced_leader_epoch), (7, ErrorCode.unknown_leader_epoch)],
)
def test_current_leader_epoch_is_checked(three_epochs: FakeBroker, current: int, expected: ErrorCode) -> None:
    assert end_of_epoch(three_epochs, 1, current=current)[0] is expected


def test_partitions_without_local_leader(broker: FakeBroker) -> None:
    broker.add_topic("t", state=partition_image(leader=2))
    broker.add_topic("elsewhere", held=False)
    assert end_of_epoch(broker, 0) == (ErrorCode.not_leader_or_follower, -1, -1)
    assert end_of_epoch(broker, 0, topic="elsewhere")[0] is ErrorCode.not_leader_or_follower
    assert end_of_epoch(broker, 0, topic="gone")[0] is ErrorCode.unknown_topic_or_partition
    assert end_of_epoch(broker, 0, partition=9)[0] is ErrorCode.unknown_topic_or_partition


def test_duplicate_partitions_get_duplicate_responses(three_epochs: FakeBroker) -> None:
    requested = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 4}
    topics = [{"topic": "t", "partitions": [requested, requested]}, {"topic": "t", "partitions": [requested]}]
    response = three_epochs.request(OFFSET_FOR_LEADER_EPOCH, 4, replica_id=-2, topics=topics)
    assert [len(topic.partitions) for topic in response.topics] == [2, 1]

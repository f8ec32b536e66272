from typing import Any

from odradek.base.errors import ErrorCode
from tests.record_batches import TestRecord
from tests.unit.broker.fake_broker import FakeBroker

DESCRIBE_PRODUCERS = 61


def describe_producers(broker: FakeBroker, **topics: list[int]) -> Any:
    requested = [{"name": name, "partition_indexes": indexes} for name, indexes in topics.items()]
    return broker.request(DESCRIBE_PRODUCERS, 0, topics=requested).topics


def test_active_producers(broker: FakeBroker) -> None:
    broker.add_topic("t")
    broker.append("t", TestRecord(b"plain"))
    for sequence in range(2):
        broker.append("t", TestRecord(b"i"), timestamp=700, producer_id=5, producer_epoch=1, base_sequence=sequence)
    broker.append(
        "t", TestRecord(b"t"), timestamp=800, attributes=0x10, producer_id=6, producer_epoch=0, base_sequence=0
    )
    ((partition,),) = (topic.partitions for topic in describe_producers(broker, t=[0]))
    assert [
        (one.producer_id, one.producer_epoch, one.last_sequence, one.last_timestamp, one.current_txn_start_offset)
        for one in partition.active_producers
    ] == [(5, 1, 1, 700, -1), (6, 0, 0, 800, 3)]
    assert {one.coordinator_epoch for one in partition.active_producers} == {-1}


def test_describe_producers_errors_have_the_messages_of_kafka(broker: FakeBroker) -> None:
    broker.add_topic("t")
    topics = [
        {"name": "t", "partition_indexes": [5]},
        {"name": "gone", "partition_indexes": [0, 1]},
        {"name": "a/b", "partition_indexes": [0]},
        {"name": "t", "partition_indexes": []},
    ]
    response = broker.request(DESCRIBE_PRODUCERS, 0, topics=topics)
    assert [[(one.error_code, one.error_message) for one in topic.partitions] for topic in response.topics] == [
        [(ErrorCode.unknown_topic_or_partition, None)],
        [(ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition.")] * 2,
        [
            (
                ErrorCode.invalid_topic_exception,
                "Topic name is invalid: 'a/b' contains one or more characters other than ASCII alphanumerics, '.', "
                "'_' and '-'",
            )
        ],
        [],
    ]

from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from tests.unit.broker.fake_broker import FakeBroker, partition_image

DESCRIBE_TOPIC_PARTITIONS = 75


def describe_partitions(
    broker: FakeBroker, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> tuple[list[tuple[str, list[int]]], tuple[str, int] | None]:
    """Topics with their partitions, and the next cursor."""
    response = describe_partitions_response(broker, *names, limit=limit, cursor=cursor)
    found = [(topic.name, [one.partition_index for one in topic.partitions]) for topic in response.topics]
    following = response.next_cursor
    return found, None if following is None else (following.topic_name, following.partition_index)


def describe_partitions_response(
    broker: FakeBroker, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> Any:
    return broker.request(
        DESCRIBE_TOPIC_PARTITIONS,
        0,
        topics=[{"name": name} for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]},
    )


@pytest.fixture
def three_topics(broker: FakeBroker) -> FakeBroker:
    broker.add_topic("c", 2)
    broker.add_topic("a")
    broker.add_topic("b", 3)
    return broker


def test_all_topics_are_sorted_by_name(three_topics: FakeBroker) -> None:
    assert describe_partitions(three_topics) == ([("a", [0]), ("b", [0, 1, 2]), ("c", [0, 1])], None)


@pytest.mark.parametrize(
    ("limit", "cursor", "found", "following"),
    [
        (1, None, [("a", [0])], ("b", 0)),
        (0, None, [("a", [0])], ("b", 0)),
        (-5, None, [("a", [0])], ("b", 0)),
        (3, None, [("a", [0]), ("b", [0, 1])], ("b", 2)),
        (3, ("b", 2), [("b", [2]), ("c", [0, 1])], None),
        (2, ("b", 1), [("b", [1, 2])], ("c", 0)),
        (10, ("bb", 1), [("c", [0, 1])], None),
        (10, ("z", 0), [], None),
    ],
)
def test_pagination(
    three_topics: FakeBroker,
    limit: int,
    cursor: tuple[str, int] | None,
    found: list[tuple[str, list[int]]],
    following: tuple[str, int] | None,
) -> None:
    assert describe_partitions(three_topics, limit=limit, cursor=cursor) == (found, following)


def test_cursor_after_the_last_partition(three_topics: FakeBroker) -> None:
    assert describe_partitions(three_topics, "c", cursor=("c", 5)) == ([("c", [])], None)


def test_broker_limits_the_page_size(tmp_path: Any) -> None:
    broker = FakeBroker(tmp_path, {"max.request.partition.size.limit": "2"})
    broker.add_topic("a", 3)
    assert describe_partitions(broker) == ([("a", [0, 1])], ("a", 2))


def test_missing_topics(three_topics: FakeBroker) -> None:
    response = describe_partitions_response(three_topics, "c", "gone", "a/b", "c")
    assert [(topic.name, topic.error_code, topic.topic_authorized_operations) for topic in response.topics] == [
        ("a/b", ErrorCode.invalid_topic_exception, 3576),
        ("c", ErrorCode.none, 3576),
        ("gone", ErrorCode.unknown_topic_or_partition, 3576),
    ]


@pytest.mark.parametrize("cursor", [("c", -1), ("elsewhere", 0)])
def test_invalid_cursor_is_rejected(three_topics: FakeBroker, cursor: tuple[str, int]) -> None:
    response = describe_partitions_response(three_topics, "c", cursor=cursor)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("c", ErrorCode.invalid_request)]
    assert response.topics[0].topic_authorized_operations == -(2**31)


def test_empty_topic_name_is_a_server_error_as_in_kafka(three_topics: FakeBroker) -> None:
    response = describe_partitions_response(three_topics, "c", "")
    assert [topic.error_code for topic in response.topics] == [ErrorCode.unknown_server_error] * 2


def test_eligible_leader_replicas(broker: FakeBroker) -> None:
    state = partition_image(leader=-1, isr=(), elr=(1,), last_known_elr=(2,), leader_epoch=5)
    broker.add_topic("a", state=state)
    (partition,) = describe_partitions_response(broker).topics[0].partitions
    assert (partition.leader_id, partition.leader_epoch, partition.isr_nodes) == (-1, 5, ())
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ((1,), (2,))

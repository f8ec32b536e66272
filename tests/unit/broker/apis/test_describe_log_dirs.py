from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from tests.record_batches import TestRecord
from tests.unit.broker.fake_broker import DIRECTORY_IDS, NODE_ID, FakeBroker, partition_image

DESCRIBE_LOG_DIRS = 35


def describe_log_dirs(
    broker: FakeBroker, topics: Mapping[str, list[int]] | None = None, version: int = 5
) -> dict[str, Any]:
    requested = None if topics is None else [{"topic": name, "partitions": indexes} for name, indexes in topics.items()]
    response = broker.request(DESCRIBE_LOG_DIRS, version, topics=requested)
    assert getattr(response, "error_code", ErrorCode.none) is ErrorCode.none
    return {result.log_dir: result for result in response.results}


def partitions(result: Any) -> dict[tuple[str, int], tuple[int, int, bool]]:
    return {
        (topic.name, one.partition_index): (one.partition_size, one.offset_lag, one.is_future_key)
        for topic in result.topics
        for one in topic.partitions
    }


@pytest.fixture
def filled(broker: FakeBroker) -> FakeBroker:
    broker.add_topic("t", 2)
    broker.add_topic("u", state=partition_image(directories=(DIRECTORY_IDS[1],)))
    broker.append("t", TestRecord(b"x"))
    return broker


@pytest.mark.parametrize("version", range(1, 6))
def test_describe_log_dirs_in_every_version(filled: FakeBroker, version: int) -> None:
    response = describe_log_dirs(filled, version=version)
    assert list(response) == list(filled.directories)
    partition = filled.partition("t", 0)
    assert partition is not None
    first, second = response.values()
    size = partition.log.size_bytes
    assert size > 0
    assert partitions(first) == {("t", 0): (size, 0, False), ("t", 1): (0, 0, False)}
    assert partitions(second) == {("u", 0): (0, 0, False)}
    if version >= 4:
        assert first.total_bytes >= first.usable_bytes > 0


@pytest.mark.parametrize(
    ("requested", "found"),
    [
        ({}, []),
        ({"t": []}, []),
        ({"gone": [0]}, []),
        ({"t": [1, 9]}, [("t", 1)]),
        ({"t": [0], "u": [0]}, [("t", 0), ("u", 0)]),
    ],
)
def test_only_requested_partitions_are_described(
    filled: FakeBroker, requested: dict[str, list[int]], found: list[tuple[str, int]]
) -> None:
    assert [name for result in describe_log_dirs(filled, requested).values() for name in partitions(result)] == found


def test_offline_log_dir(filled: FakeBroker) -> None:
    first, second = filled.directories
    filled.log_dirs.fail(first, OSError(5, "Input/output error"))
    response = describe_log_dirs(filled)
    assert response[first].error_code is ErrorCode.kafka_storage_error
    assert (response[first].topics, response[first].total_bytes, response[first].usable_bytes) == ((), -1, -1)
    assert response[second].error_code is ErrorCode.none


def test_log_dir_without_disk_usage(filled: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(directory: str) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(filled.log_dirs, "usage", broken)
    assert {one.error_code for one in describe_log_dirs(filled).values()} == {ErrorCode.unknown_server_error}


def test_future_replica(filled: FakeBroker) -> None:
    topic = filled.image.topics_by_name["t"]
    partition = filled.partition("t", 0)
    assert partition is not None
    filled.log_dirs.create_future(partition.name, topic.id, partition.log.config, filled.directories[1], 0)
    response = describe_log_dirs(filled, {"t": [0]})
    assert partitions(response[filled.directories[1]]) == {("t", 0): (0, 1, True)}


def test_each_replica_is_described_once_while_a_log_dir_move_ends(filled: FakeBroker) -> None:
    """The future log is renamed first, then the partition uses it, and then the original is deleted."""
    first, second = filled.directories
    topic = filled.image.topics_by_name["t"]
    partition = filled.partition("t", 1)
    assert partition is not None
    future = filled.log_dirs.create_future(partition.name, topic.id, partition.log.config, second, 0)
    filled.log_dir_moves.destinations[partition.name] = second
    filled.log_dirs.promote(future)
    response = describe_log_dirs(filled, {"t": [1]})
    assert partitions(response[first]) == {("t", 1): (0, 0, False)}
    assert partitions(response[second]) == {("t", 1): (0, 0, True)}
    partition.relocate(future, filled.threads_of(second))
    response = describe_log_dirs(filled, {"t": [1]})
    assert partitions(response[first]) == {}
    assert [is_future for _, _, is_future in partitions(response[second]).values()] == [False]


def test_log_without_partition_has_no_lag(filled: FakeBroker) -> None:
    filled.forget("t", 1)
    assert partitions(describe_log_dirs(filled)[filled.directories[0]])["t", 1] == (0, -1, False)


def test_cordoned_log_dirs(filled: FakeBroker) -> None:
    registration = filled.image.brokers[NODE_ID]
    filled.set_brokers(replace(registration, cordoned_directories=(DIRECTORY_IDS[1],)))
    assert [one.is_cordoned for one in describe_log_dirs(filled).values()] == [False, True]

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.server.context import RequestContext
from odradek.storage.partition.partition import Partition
from odradek.wire.apis import BROKER_APIS, load_handler
from odradek.wire.schemas import schema
from tests import raw_wire
from tests.unit.broker.fake_broker import DIRECTORY_IDS, NODE_ID, FakeBroker, NotingMoves

ALTER_REPLICA_LOG_DIRS = 34
NAME = TopicPartition("t", 0)


def move(broker: FakeBroker, *wanted: tuple[str, str, int], version: int = 2) -> dict[tuple[str, int], ErrorCode]:
    """Each a directory, a topic and a partition."""
    dirs = [{"path": path, "topics": [{"name": topic, "partitions": [index]}]} for path, topic, index in wanted]
    response = broker.request(ALTER_REPLICA_LOG_DIRS, version, dirs=dirs)
    return {
        (topic.topic_name, one.partition_index): one.error_code
        for topic in response.results
        for one in topic.partitions
    }


@pytest.fixture
def filled(broker: FakeBroker) -> FakeBroker:
    broker.add_topic("t", 2)
    return broker


@pytest.mark.parametrize("version", [1, 2])
def test_log_dir_move_starts(filled: FakeBroker, version: int) -> None:
    _, second = filled.directories
    assert move(filled, (second, "t", 0), version=version) == {("t", 0): ErrorCode.none}
    assert filled.log_dir_moves.destinations == {NAME: second}


def test_move_to_the_current_log_dir_is_a_no_op(filled: FakeBroker) -> None:
    first, _ = filled.directories
    assert move(filled, (first, "t", 0)) == {("t", 0): ErrorCode.none}
    assert filled.log_dir_moves.destinations == {}


def test_repeated_request_continues_the_move(filled: FakeBroker) -> None:
    _, second = filled.directories
    for _ in range(2):
        assert move(filled, (second, "t", 0)) == {("t", 0): ErrorCode.none}
    assert filled.log_dir_moves.cancelled == []


def test_move_back_to_the_current_log_dir_cancels_the_move(filled: FakeBroker) -> None:
    first, second = filled.directories
    move(filled, (second, "t", 0))
    assert move(filled, (first, "t", 0)) == {("t", 0): ErrorCode.none}
    assert filled.log_dir_moves.cancelled == [NAME]
    assert filled.log_dir_moves.destinations == {}


def test_last_log_dir_of_a_duplicate_partition_applies(filled: FakeBroker) -> None:
    first, second = filled.directories
    assert move(filled, (first, "t", 0), (second, "t", 0)) == {("t", 0): ErrorCode.none}
    assert filled.log_dir_moves.destinations == {NAME: second}


@pytest.mark.parametrize("path", ["/nonexistent", "", "relative", "{first}/"])
def test_unknown_log_dirs_are_rejected(filled: FakeBroker, path: str) -> None:
    path = path.format(first=filled.directories[0])
    assert move(filled, (path, "t", 0), (path, "t", 1)) == {
        ("t", 0): ErrorCode.log_dir_not_found,
        ("t", 1): ErrorCode.log_dir_not_found,
    }


def test_partitions_without_local_replica(filled: FakeBroker) -> None:
    _, second = filled.directories
    filled.add_topic("elsewhere", held=False)
    assert move(filled, (second, "t", 7), (second, "gone", 0), (second, "a/b", 0), (second, "elsewhere", 0)) == {
        ("t", 7): ErrorCode.unknown_topic_or_partition,
        ("gone", 0): ErrorCode.unknown_topic_or_partition,
        ("a/b", 0): ErrorCode.unknown_topic_or_partition,
        ("elsewhere", 0): ErrorCode.replica_not_available,
    }


def test_topic_name_too_long_for_a_future_directory(filled: FakeBroker) -> None:
    first, _ = filled.directories
    # 213 characters, a dash, a digit and the 40 of the mark are 255.
    fits, too_long = "x" * 213, "x" * 214
    assert move(filled, (first, fits, 0), (first, too_long, 0)) == {
        (fits, 0): ErrorCode.unknown_topic_or_partition,
        (too_long, 0): ErrorCode.invalid_topic_exception,
    }


def test_offline_destination(filled: FakeBroker) -> None:
    _, second = filled.directories
    filled.log_dirs.fail(second, OSError(5, "Input/output error"))
    assert move(filled, (second, "t", 0)) == {("t", 0): ErrorCode.kafka_storage_error}


def test_offline_partition(filled: FakeBroker) -> None:
    _, second = filled.directories
    partition = filled.partition("t", 0)
    assert partition is not None
    partition.withdraw(ErrorCode.kafka_storage_error)
    assert move(filled, (second, "t", 0)) == {("t", 0): ErrorCode.kafka_storage_error}


def test_no_move_starts_while_a_log_dir_is_offline(filled: FakeBroker) -> None:
    _, second = filled.directories
    filled.log_dirs.offline["/elsewhere"] = OSError(5, "Input/output error")
    assert move(filled, (second, "t", 0)) == {("t", 0): ErrorCode.kafka_storage_error}


def test_cordoned_log_dir_is_rejected(filled: FakeBroker) -> None:
    _, second = filled.directories
    registration = filled.image.brokers[NODE_ID]
    filled.set_brokers(replace(registration, cordoned_directories=(DIRECTORY_IDS[1],)))
    assert move(filled, (second, "t", 0)) == {("t", 0): ErrorCode.invalid_replica_assignment}


def test_future_replica_that_cannot_be_created(filled: FakeBroker) -> None:
    _, second = filled.directories
    filled.log_dir_moves.error = OSError(28, "No space left on device")
    assert move(filled, (second, "t", 0)) == {("t", 0): ErrorCode.kafka_storage_error}


def test_empty_alter_replica_log_dirs_request(broker: FakeBroker) -> None:
    assert move(broker) == {}


class SlowlyEndedMoves(NotingMoves):
    async def start(self, partition: Partition, destination: str) -> None:
        assert partition.name not in self.destinations, "two moves of one replica would write over each other"
        await super().start(partition, destination)

    async def cancel(self, name: TopicPartition) -> None:
        ended = self.destinations[name]
        await asyncio.sleep(0)
        if self.destinations.get(name) == ended:
            del self.destinations[name]


def test_concurrent_cancellations_start_only_one_move(filled: FakeBroker) -> None:
    _, second = filled.directories
    filled.log_dir_moves = SlowlyEndedMoves()
    filled.log_dir_moves.destinations[NAME] = "elsewhere"

    async def request_twice() -> list[Any]:
        return await asyncio.gather(*(_alter(filled, second) for _ in range(2)))

    assert [one.results[0].partitions[0].error_code for one in asyncio.run(request_twice())] == [ErrorCode.none] * 2
    assert filled.log_dir_moves.destinations == {NAME: second}


def _alter(broker: FakeBroker, directory: str) -> Any:
    messages = schema(ALTER_REPLICA_LOG_DIRS, 2)
    dirs = [{"path": directory, "topics": [{"name": NAME.topic, "partitions": [NAME.partition]}]}]
    request = raw_wire.build(messages.request_type, {"dirs": dirs})
    context = RequestContext(ALTER_REPLICA_LOG_DIRS, 2, "test", "PLAINTEXT", "127.0.0.1", messages)
    return load_handler(BROKER_APIS[ALTER_REPLICA_LOG_DIRS]).handle(request, context, broker)

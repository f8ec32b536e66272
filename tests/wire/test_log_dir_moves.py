"""Replicas moved between the log dirs of a running node, under load, with kill -9: nothing is lost, nothing doubled."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.odradek_process import OdradekProcess
from tests.raw_wire import RawConnection
from tests.wire.idempotent_writer import IdempotentWriter, PartitionWriter, assert_log_equals
from tests.wire.plain_requests import create_topic, leaders, until

TOPIC = "moving"
PARTITIONS = 2
SEED = 20260617
CYCLES = 6
LOAD_S_MAX = 0.6


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OdradekProcess]:
    node = OdradekProcess(tmp_path, log_dirs=[tmp_path / "first", tmp_path / "second"])
    yield node
    node.kill()


def _places(connection: RawConnection) -> tuple[dict[int, str], dict[int, str]]:
    """By partition: the dir that it lives in, and the dir that it is moving to."""
    lives: dict[int, str] = {}
    moves: dict[int, str] = {}
    for result in connection.ask(Api.DESCRIBE_LOG_DIRS, 4, {"topics": None}).results:
        for topic in result.topics:
            for one in topic.partitions:
                (moves if one.is_future_key else lives)[one.partition_index] = result.log_dir
    return lives, moves


def _move_all(connection: RawConnection) -> None:
    """Everything to the other dir."""
    lives, _ = _places(connection)
    directories = {result.log_dir for result in connection.ask(Api.DESCRIBE_LOG_DIRS, 4, {"topics": []}).results}
    for partition, directory in lives.items():
        (other,) = directories - {directory}
        wanted = {"dirs": [{"path": other, "topics": [{"name": TOPIC, "partitions": [partition]}]}]}
        (result,) = connection.ask(Api.ALTER_REPLICA_LOG_DIRS, 2, wanted).results
        assert result.partitions[0].error_code is ErrorCode.none


def _prepare(connection: RawConnection, chance: random.Random) -> IdempotentWriter:
    assert (
        create_topic(connection, TOPIC, partitions=PARTITIONS, configs={"segment.bytes": str(1 << 20)})
        is ErrorCode.none
    )
    partitions = []
    for number in range(PARTITIONS):
        producer_id = connection.ask(Api.INIT_PRODUCER_ID, 4, {"transaction_timeout": 60_000}).producer_id
        partitions.append(PartitionWriter(TOPIC, number, producer_id))
    return IdempotentWriter(partitions, chance)


def _load(connection: RawConnection, writer: IdempotentWriter, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        writer.write_one(connection)


def test_writers_do_not_notice(node: OdradekProcess) -> None:
    node.start()
    with RawConnection(node.port) as connection, RawConnection(node.port) as admin:
        writer = _prepare(connection, random.Random(SEED))
        _load(connection, writer, 0.5)
        before, _ = _places(admin)
        for _ in range(3):
            _move_all(admin)
            while _places(admin)[1]:
                _load(connection, writer, 0.05)
        writer.drain(connection)
        assert all(_places(admin)[0][partition] != directory for partition, directory in before.items())
        for partition in writer.partitions:
            assert partition.unknown == []
            assert_log_equals(admin, partition, partition.sent)


@pytest.mark.timeout(120)
def test_nothing_is_lost_when_the_node_dies_in_the_middle(node: OdradekProcess) -> None:
    chance = random.Random(SEED)
    node.start()
    with RawConnection(node.port) as connection:
        writer = _prepare(connection, chance)
    for _ in range(CYCLES):
        with RawConnection(node.port) as connection:
            _load(connection, writer, 0.2)
            with RawConnection(node.port) as admin:
                _move_all(admin)
            _load(connection, writer, chance.uniform(0, LOAD_S_MAX))
            node.kill()
            writer.drain(connection)
        node.start()
        with RawConnection(node.port) as connection:
            until(lambda: all(one[1] >= 0 for one in leaders(connection, TOPIC).values()), what="an election")
            writer.resend_unknown(connection)
            for partition in writer.partitions:
                assert_log_equals(connection, partition, partition.sent)
    with RawConnection(node.port) as connection:
        until(lambda: not _places(connection)[1], 20, what="the end of the moves")
        assert sorted(_places(connection)[0]) == list(range(PARTITIONS))
        for partition in writer.partitions:
            assert_log_equals(connection, partition, partition.sent)

"""Log dir moves on a running node, under load and with kill -9: no record is lost or duplicated."""

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


def _locate_replicas(connection: RawConnection) -> tuple[dict[int, str], dict[int, str]]:
    """By partition: its current log dir, and the log dir that it is moving to."""
    current: dict[int, str] = {}
    future: dict[int, str] = {}
    for result in connection.request(Api.DESCRIBE_LOG_DIRS, 4, {"topics": None}).results:
        for topic in result.topics:
            for one in topic.partitions:
                (future if one.is_future_key else current)[one.partition_index] = result.log_dir
    return current, future


def _move_all(connection: RawConnection) -> None:
    """Moves every partition to the other log dir."""
    current, _ = _locate_replicas(connection)
    directories = {result.log_dir for result in connection.request(Api.DESCRIBE_LOG_DIRS, 4, {"topics": []}).results}
    for partition, directory in current.items():
        (other,) = directories - {directory}
        wanted = {"dirs": [{"path": other, "topics": [{"name": TOPIC, "partitions": [partition]}]}]}
        (result,) = connection.request(Api.ALTER_REPLICA_LOG_DIRS, 2, wanted).results
        assert result.partitions[0].error_code is ErrorCode.none


def _prepare(connection: RawConnection, chance: random.Random) -> IdempotentWriter:
    assert (
        create_topic(connection, TOPIC, partitions=PARTITIONS, configs={"segment.bytes": str(1 << 20)})
        is ErrorCode.none
    )
    partitions = []
    for number in range(PARTITIONS):
        producer_id = connection.request(Api.INIT_PRODUCER_ID, 4, {"transaction_timeout": 60_000}).producer_id
        partitions.append(PartitionWriter(TOPIC, number, producer_id))
    return IdempotentWriter(partitions, chance)


def _load(connection: RawConnection, writer: IdempotentWriter, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        writer.write_one(connection)


def test_log_dir_moves_do_not_disturb_producers(node: OdradekProcess) -> None:
    node.start()
    with RawConnection(node.port) as connection, RawConnection(node.port) as admin:
        writer = _prepare(connection, random.Random(SEED))
        _load(connection, writer, 0.5)
        before, _ = _locate_replicas(admin)
        for _ in range(3):
            _move_all(admin)
            while _locate_replicas(admin)[1]:
                _load(connection, writer, 0.05)
        writer.drain(connection)
        assert all(_locate_replicas(admin)[0][partition] != directory for partition, directory in before.items())
        for partition in writer.partitions:
            assert partition.unknown == []
            assert_log_equals(admin, partition, partition.sent)


@pytest.mark.timeout(120)
def test_kill_nine_during_log_dir_moves_loses_nothing(node: OdradekProcess) -> None:
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
        until(lambda: not _locate_replicas(connection)[1], 20, what="the end of the log dir moves")
        assert sorted(_locate_replicas(connection)[0]) == list(range(PARTITIONS))
        for partition in writer.partitions:
            assert_log_equals(connection, partition, partition.sent)

"""Repeated kill -9 at random moments under load: acknowledged records are kept byte for byte, none duplicated.

Kills hit appends, segment rolls, topic creation, recovery and the first moments of serving. A failure names its
seed and cycle; ODRADEK_KILL_SEED and ODRADEK_KILL_CYCLES repeat or lengthen the run.
"""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.odradek_process import OdradekProcess
from tests.patience import Patience
from tests.raw_wire import ConnectionClosed, RawConnection
from tests.wire.idempotent_writer import IdempotentWriter, PartitionWriter, assert_log_equals

CYCLES = int(os.environ.get("ODRADEK_KILL_CYCLES", "10"))
SEED = int(os.environ.get("ODRADEK_KILL_SEED", "20240229"))
LOAD_S_MAX = 0.4
KILLED_WHILE_STARTING = 0.2
LEADERS_WITHIN_S = 10.0

# Small segments roll every few batches; the other topic keeps one large active segment to recover.
TOPICS = {"rolling": {"segment.bytes": str(1 << 20), "index.interval.bytes": "100"}, "growing": {}}
PARTITIONS = 2


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OdradekProcess]:
    node = OdradekProcess(tmp_path)
    yield node
    node.kill()


@pytest.mark.timeout(1500)
def test_no_acknowledged_record_is_lost_after_kill_nine(node: OdradekProcess) -> None:
    chance = random.Random(SEED)
    node.start()
    writer = _prepare(node, chance)
    created = set(TOPICS)
    for cycle in range(CYCLES):
        before = [partition.acknowledged for partition in writer.partitions]
        created |= _load_and_kill(node, writer, chance, new_topic=f"made-in-cycle-{cycle}")
        _restart(node, chance)
        with RawConnection(node.port) as connection:
            missing = created - _topics(connection)
            assert not missing, f"seed {SEED}, cycle {cycle}: acknowledged topics are gone: {missing}"
            for topic in TOPICS:
                _wait_for_leaders(connection, topic)
            writer.resend_unknown(connection)
            for partition, first in zip(writer.partitions, before, strict=True):
                # This cycle's batches, and a range of earlier ones.
                assert_log_equals(connection, partition, partition.sent[first:])
                past = chance.randrange(first + 1)
                assert_log_equals(connection, partition, partition.sent[past : past + 20])
    with RawConnection(node.port) as connection:
        for partition in writer.partitions:
            assert_log_equals(connection, partition, partition.sent)
            assert _end_offset(connection, partition) == partition.next_offset
    assert sum(len(partition.sent) for partition in writer.partitions) > CYCLES * 10, "hardly any load"


def _prepare(node: OdradekProcess, chance: random.Random) -> IdempotentWriter:
    partitions = []
    with RawConnection(node.port) as connection:
        for topic, configs in TOPICS.items():
            _create(connection, topic, PARTITIONS, configs)
            for number in range(PARTITIONS):
                response = connection.request(Api.INIT_PRODUCER_ID, 4, {"transaction_timeout": 60_000})
                assert response.error_code is ErrorCode.none, response
                partitions.append(PartitionWriter(topic, number, response.producer_id))
        for topic in TOPICS:
            _wait_for_leaders(connection, topic)
    return IdempotentWriter(partitions, chance)


def _load_and_kill(node: OdradekProcess, writer: IdempotentWriter, chance: random.Random, new_topic: str) -> set[str]:
    """Returns the topics whose creation was acknowledged before the node died."""
    created: set[str] = set()
    with RawConnection(node.port) as connection:
        deadline = time.monotonic() + chance.uniform(0, LOAD_S_MAX)
        creates_at = time.monotonic() + chance.uniform(0, LOAD_S_MAX)
        try:
            while (now := time.monotonic()) < deadline:
                writer.write_one(connection)
                if now >= creates_at and not created:
                    with RawConnection(node.port) as admin:
                        _create(admin, new_topic, 1, {})
                    created.add(new_topic)
        except ConnectionClosed:
            pytest.fail(f"the node closed the connection under load:\n{node.output_file.read_text()[-3000:]}")
        node.kill()
        writer.drain(connection)
    return created


def _restart(node: OdradekProcess, chance: random.Random) -> None:
    """Restarts the node, and sometimes kills it during recovery first."""
    while chance.random() < KILLED_WHILE_STARTING:
        node.spawn()
        time.sleep(chance.uniform(0, 0.5))
        node.kill()
    node.start()


def _create(connection: RawConnection, topic: str, partitions: int, configs: dict[str, str]) -> None:
    new = {
        "name": topic,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": [{"name": key, "value": value} for key, value in configs.items()],
    }
    response = connection.request(Api.CREATE_TOPICS, 5, {"topics": [new], "timeout": 10_000})
    assert response.topics[0].error_code is ErrorCode.none, response.topics[0]


def _topics(connection: RawConnection) -> set[str]:
    return {topic.name for topic in connection.request(Api.METADATA, 9, {"topics": None}).topics}


def _wait_for_leaders(connection: RawConnection, topic: str) -> None:
    patience = Patience(LEADERS_WITHIN_S)
    fields = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
    while not patience.is_over():
        (described,) = connection.request(Api.METADATA, 9, fields).topics
        if len(described.partitions) == PARTITIONS and all(p.leader_id >= 0 for p in described.partitions):
            return
        time.sleep(0.02)
    pytest.fail(f"{topic} has no leaders")


def _end_offset(connection: RawConnection, partition: PartitionWriter) -> int:
    wanted = {"partition_index": partition.partition, "timestamp": -1}
    fields = {"replica_id": -1, "topics": [{"name": partition.topic, "partitions": [wanted]}]}
    (response,) = connection.request(Api.LIST_OFFSETS, 6, fields).topics[0].partitions
    return int(response.offset)

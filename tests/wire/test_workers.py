"""Large logs are compacted and loaded by processes of the broker: killed, idle, and gone with it."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tests import offsets_log
from tests.apis import Api
from tests.node_process import is_alive
from tests.odradek_process import OdradekProcess
from tests.raw_wire import RawConnection
from tests.wire.plain_requests import TOPIC_RESOURCE, alter_configs, create_topic, produce, until
from tests.wire.stall_watch import StallWatch

SIZE_BYTES = 24_000_000
PATIENCE_S = 120


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OdradekProcess]:
    """A broker with a large `__consumer_offsets`, before its start."""
    node = OdradekProcess(tmp_path, properties=offsets_log.PROPERTIES)
    try:
        node.start()
        offsets_log.create_offsets_topic(node)
        node.stop()
        offsets_log.fill(node, SIZE_BYTES)
        yield node
    finally:
        node.kill()


def log_bytes(node: OdradekProcess) -> int:
    directory = node.log_dirs[0] / f"{offsets_log.TOPIC}-0"
    return sum(file.stat().st_size for file in directory.glob("*.log"))


def workers_of(node: OdradekProcess, pool: str) -> list[int]:
    return [pid for pid in node.worker_pids if pool.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()]


def start_compaction(node: OdradekProcess) -> None:
    with RawConnection(node.port) as connection:
        change = {"min.cleanable.dirty.ratio": "0.01"}
        assert alter_configs(connection, TOPIC_RESOURCE, offsets_log.TOPIC, change)[0] is ErrorCode.none


def wait_until_loaded(node: OdradekProcess) -> None:
    until(lambda: offsets_log.has_loaded(node), what="the load", within_s=PATIENCE_S)


def committed_offset(node: OdradekProcess, number: int) -> int:
    topics = [{"name": offsets_log.COMMITTED_TOPIC, "partition_indexes": [offsets_log.partition_of(number)]}]
    groups = [{"group_id": offsets_log.group_of(number), "topics": topics}]
    with RawConnection(node.port) as connection:
        (group,) = connection.request(Api.OFFSET_FETCH, 8, {"groups": groups}).groups
    assert group.error_code is ErrorCode.none
    offset: int = group.topics[0].partitions[0].committed_offset
    return offset


def test_coordinator_is_loaded_without_stalling_the_event_loop(node: OdradekProcess) -> None:
    node.start()
    with StallWatch(node):
        wait_until_loaded(node)
    for number in (0, 1, offsets_log.KEYS - 1):
        assert committed_offset(node, number) == number
    # Of millions of commits, only the last of each key were replayed.
    assert f"Loaded {offsets_log.KEYS} records" in node.output_file.read_text()


def test_killed_worker_fails_only_its_compaction_which_is_repeated(node: OdradekProcess) -> None:
    node.start()
    wait_until_loaded(node)
    with RawConnection(node.port) as connection:
        assert create_topic(connection, "meanwhile") is ErrorCode.none
        start_compaction(node)
        until(lambda: bool(workers_of(node, "compaction")), what="a worker", within_s=PATIENCE_S)
        (killed,) = workers_of(node, "compaction")
        os.kill(killed, signal.SIGKILL)
        assert produce(connection, "meanwhile", b"value").error is ErrorCode.none
        until(lambda: "Cannot compact" in node.output_file.read_text(), what="the report", within_s=PATIENCE_S)
        until(lambda: offsets_log.has_compacted(node), what="the compaction", within_s=PATIENCE_S)
        assert produce(connection, "meanwhile", b"value").error is ErrorCode.none
    assert log_bytes(node) < SIZE_BYTES / 2
    assert committed_offset(node, 7) == 7


def test_workers_end_with_a_killed_broker(node: OdradekProcess) -> None:
    node.start()
    until(lambda: bool(node.worker_pids), what="a worker", within_s=PATIENCE_S)
    workers = node.worker_pids
    node.kill()
    until(lambda: not any(map(is_alive, workers)), what="the end of the workers", within_s=PATIENCE_S)
    # The next start is not disturbed.
    node.start()
    wait_until_loaded(node)
    assert committed_offset(node, 7) == 7

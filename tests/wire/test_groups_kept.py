"""Committed offsets and members of groups survive restarts and compaction; offsets expire after their retention."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.kafka.apache_kafka import ApacheKafka
from tests.node_process import NodeProcess
from tests.odradek_process import OdradekProcess
from tests.patience import withheld_seconds
from tests.raw_wire import RawConnection
from tests.wire.plain_requests import create_topic, until

OFFSETS_RELOADED = 100_000
RELOAD_SECONDS_MAX = 3.0
PARTITIONS = 100
AHEAD = 20
TOPIC = "kept"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OdradekProcess]:
    node = OdradekProcess(tmp_path, properties={"offsets.retention.check.interval.ms": "300"})
    try:
        yield node.start()
    finally:
        node.remove()


def connect(node: NodeProcess) -> RawConnection:
    """Connects, and waits until the coordinator has loaded."""
    connection = RawConnection(node.port)

    def is_loaded() -> bool:
        connection.request(Api.FIND_COORDINATOR, 6, {"coordinator_keys": ["any"]})
        return fetch_group(connection, "any").error_code is ErrorCode.none

    until(is_loaded, 30, what="a coordinator")
    return connection


def commit_fields(group: str, offsets: dict[int, int], **others: Any) -> dict[str, Any]:
    partitions = [{"partition_index": index, "committed_offset": offset} for index, offset in offsets.items()]
    topics = [{"name": TOPIC, "partitions": partitions}]
    return {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics, **others}


def commit(connection: RawConnection, group: str, offsets: dict[int, int], version: int = 9, **others: Any) -> None:
    response = connection.request(Api.OFFSET_COMMIT, version, commit_fields(group, offsets, **others))
    assert {one.error_code for one in response.topics[0].partitions} == {ErrorCode.none}


def fetch_group(connection: RawConnection, group: str) -> Any:
    return connection.request(Api.OFFSET_FETCH, 9, {"groups": [{"group_id": group, "topics": None}]}).groups[0]


def fetch(connection: RawConnection, group: str) -> dict[int, int]:
    response = fetch_group(connection, group)
    assert response.error_code is ErrorCode.none
    return {one.partition_index: one.committed_offset for topic in response.topics for one in topic.partitions}


def join(connection: RawConnection, group: str) -> dict[str, Any]:
    """Joins a member with an assignment; returns the fields of its further requests."""
    member: dict[str, Any] = {"group_id": group, "session_timeout": 30_000, "rebalance_timeout": 30_000}
    member |= {"protocol_type": "consumer", "protocol_name": "range", "protocols": [{"name": "range", "metadata": b""}]}
    member["member_id"] = connection.request(Api.JOIN_GROUP, 9, member).member_id
    member["generation_id"] = connection.request(Api.JOIN_GROUP, 9, member).generation_id
    member["assignments"] = [{"member_id": member["member_id"], "assignment": b"share"}]
    assert connection.request(Api.SYNC_GROUP, 5, member).assignment == b"share"
    return member


def test_offsets_and_members_survive_kill_nine(node: OdradekProcess) -> None:
    connection = connect(node)
    create_topic(connection, TOPIC, partitions=3)
    commit(connection, "simple", {0: 5, 1: 6})
    member = join(connection, "with a member")
    for number in range(3):
        commit(connection, "simple", {2: number})
        node.kill()
        node.start()
        connection = connect(node)
        assert fetch(connection, "simple") == {0: 5, 1: 6, 2: number}
        # The member need not rejoin: generation and assignment are unchanged.
        assert connection.request(Api.HEARTBEAT, 4, member).error_code is ErrorCode.none
        assert connection.request(Api.SYNC_GROUP, 5, member).assignment == b"share"


def test_offsets_expire_after_their_retention_time(node: OdradekProcess) -> None:
    connection = connect(node)
    create_topic(connection, TOPIC, partitions=3)
    commit(connection, "expiring", {0: 5}, version=2, retention_time=1)
    commit(connection, "lasting", {0: 5}, version=2, retention_time=-1)
    until(lambda: fetch(connection, "expiring") == {}, 20, what="the expiry of an offset")
    described = connection.request(Api.DESCRIBE_GROUPS, 6, {"groups": ["expiring", "lasting"]}).groups
    assert [one.error_code for one in described] == [ErrorCode.group_id_not_found, ErrorCode.none]
    assert fetch(connection, "lasting") == {0: 5}
    node.kill()
    node.start()
    assert fetch(connect(node), "expiring") == {}


def test_coordinator_loads_many_offsets_quickly_after_kill_nine(
    node: OdradekProcess, measured: Callable[[str], None]
) -> None:
    connection = connect(node)
    create_topic(connection, TOPIC, partitions=PARTITIONS)
    groups = [f"group {number}" for number in range(OFFSETS_RELOADED // PARTITIONS)]
    for start in range(0, len(groups), AHEAD):
        for number, group in enumerate(groups[start : start + AHEAD], start):
            offsets = dict.fromkeys(range(PARTITIONS), number)
            connection.send(Api.OFFSET_COMMIT, 9, commit_fields(group, offsets))
        for _ in groups[start : start + AHEAD]:
            connection.receive()
    node.kill()
    node.start()
    began_at, withheld = time.monotonic(), withheld_seconds()
    connection = connect(node)
    seconds = time.monotonic() - began_at
    excused = withheld_seconds() - withheld
    for number in range(0, len(groups), 50):
        assert fetch(connection, groups[number]) == dict.fromkeys(range(PARTITIONS), number)
    measured(f"{OFFSETS_RELOADED} offsets were loaded after {seconds:.2f} s, {excused:.2f} s of them withheld")
    assert seconds - excused < RELOAD_SECONDS_MAX


def test_consumer_offsets_topic_is_compacted(tmp_path: Path) -> None:
    properties = {"offsets.topic.segment.bytes": str(1 << 20), "log.cleaner.backoff.ms": "100"}
    node = OdradekProcess(tmp_path, properties=properties)
    try:
        connection = connect(node.start())
        create_topic(connection, TOPIC, partitions=PARTITIONS)
        for number in range(300):
            commit(connection, "busy", dict.fromkeys(range(PARTITIONS), number))
        until(lambda: log_bytes(node) < 2_000_000, 60, what="a smaller log")
        node.kill()
        node.start()
        assert fetch(connect(node), "busy") == dict.fromkeys(range(PARTITIONS), 299)
    finally:
        node.remove()


def log_bytes(node: OdradekProcess) -> int:
    return sum(size(file) for directory in node.log_dirs for file in (directory / "__consumer_offsets-0").glob("*.log"))


def size(file: Path) -> int:
    """0 for a file that compaction removed meanwhile."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


@pytest.mark.parametrize("first", ["odradek", pytest.param("kafka", marks=pytest.mark.tier("proof"))])
def test_kafka_and_odradek_load_each_others_offsets_and_members(
    tmp_path: Path, apache_kafka_libs: Path, first: str
) -> None:
    brokers: list[NodeProcess] = [OdradekProcess(tmp_path), ApacheKafka(apache_kafka_libs, tmp_path)]
    if first == "kafka":
        brokers.reverse()
    writer, reader = brokers
    try:
        connection = connect(writer.start())
        create_topic(connection, TOPIC, partitions=3)
        commit(connection, "simple", {0: 5, 1: 6})
        member = join(connection, "with a member")
        writer.stop()
        reader.port = writer.port
        reader.controller_port = writer.controller_port
        connection = connect(reader.start())
        assert fetch(connection, "simple") == {0: 5, 1: 6}
        assert connection.request(Api.HEARTBEAT, 4, member).error_code is ErrorCode.none
        assert connection.request(Api.SYNC_GROUP, 5, member).assignment == b"share"
        commit(connection, "simple", {2: 7})
        assert (
            connection.request(Api.DELETE_GROUPS, 2, {"groups_names": ["simple"]}).results[0].error_code
            is ErrorCode.none
        )
        reader.stop()
        connection = connect(writer.start())
        assert fetch(connection, "simple") == {}
        assert connection.request(Api.HEARTBEAT, 4, member).error_code is ErrorCode.none
    finally:
        for broker in brokers:
            broker.remove()

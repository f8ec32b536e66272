"""The audit log of a node: what brokers do themselves, restarts, rotation, and a disk that hangs.

tests/wire/test_secure_cluster.py has logins, denials, and changes that are forwarded.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.node_process import KEEPS_OLD_RECORDS
from tests.odradek_process import OdradekProcess
from tests.raw_wire import CLIENT_ID, RawConnection
from tests.record_batches import TestRecord, batch
from tests.wire.plain_requests import create_topic, now_ms, produce_batch, until

LOGGER, SET = 8, 0


class Audited(OdradekProcess):
    def __init__(self, directory: Path, **properties: str) -> None:
        directory.mkdir(exist_ok=True)
        self.audit_log = directory / "audit.log"
        configs = {name.replace("_", "."): value for name, value in properties.items()}
        super().__init__(
            directory,
            properties={**KEEPS_OLD_RECORDS, "audit.log.file": str(self.audit_log), **configs},
            log_dirs=[directory / "one", directory / "two"],
        )

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.audit_log.read_text().splitlines()]

    def wait_for(self, event: str, resource: str | None = None, *, count: int = 1) -> list[dict[str, Any]]:
        def found() -> list[dict[str, Any]]:
            return [one for one in self.events() if one["event"] == event and resource in (None, one["resource_name"])]

        until(lambda: len(found()) >= count, what=f"{count} of {event}")
        return found()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    node = Audited(tmp_path_factory.mktemp("audited"))
    try:
        yield node.start()
    finally:
        node.remove()


@pytest.fixture
def wire(node: Audited) -> Iterator[RawConnection]:
    with RawConnection(node.port) as connection:
        yield connection


def new_topic(wire: RawConnection, name: str) -> None:
    assert create_topic(wire, name) is ErrorCode.none
    records = batch(*[TestRecord(b"x")] * 5, timestamp=now_ms())
    until(lambda: produce_batch(wire, name, records).error is ErrorCode.none, what="a leader")


def test_a_change_has_its_request(node: Audited, wire: RawConnection, topic: str) -> None:
    create_topic(wire, topic)
    (event,) = node.wait_for("topic.create", topic)
    assert (event["principal"], event["address"], event["client_id"], event["api"]) == (
        "User:ANONYMOUS",
        "127.0.0.1",
        CLIENT_ID,
        "CreateTopics",
    )
    assert event["outcome"] == "success"
    assert create_topic(wire, topic) is ErrorCode.topic_already_exists
    failed = node.wait_for("topic.create", topic, count=2)[1]
    assert (failed["outcome"], failed["error"]) == ("failure", "TOPIC_ALREADY_EXISTS")


def test_deleted_records(node: Audited, wire: RawConnection, topic: str) -> None:
    new_topic(wire, topic)
    wanted = {"name": topic, "partitions": [{"partition_index": index, "offset": 3} for index in (0, 7)]}
    wire.request(Api.DELETE_RECORDS, 2, {"topics": [wanted], "timeout": 10_000})
    deleted, failed = node.wait_for("records.delete", topic, count=2)
    assert (deleted["before"], deleted["after"]) == (
        {"0": {"log_start_offset": 0}},
        {"0": {"log_start_offset": 3}},
    )
    assert deleted["correlation_id"] is not None
    assert (failed["outcome"], failed["detail"]) == ("failure", "partitions 7")


def test_moved_replicas(node: Audited, wire: RawConnection, topic: str) -> None:
    new_topic(wire, topic)
    former = next(path for path in node.log_dirs if (path / f"{topic}-0").exists())
    (other,) = (path for path in node.log_dirs if path != former)
    wanted = {"dirs": [{"path": str(other), "topics": [{"name": topic, "partitions": [0]}]}]}
    wire.request(Api.ALTER_REPLICA_LOG_DIRS, 2, wanted)
    (moved,) = node.wait_for("log_dir.move", topic)
    assert (moved["before"], moved["after"]) == ({"0": {"log_dir": str(former)}}, {"0": {"log_dir": str(other)}})


def test_log_levels(node: Audited, wire: RawConnection) -> None:
    for name in ("missing", "odradek"):
        configs = [{"name": name, "config_operation": SET, "value": "DEBUG"}]
        resource = {"resource_type": LOGGER, "resource_name": "1", "configs": configs}
        wire.request(Api.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": False})
    failed, altered = node.wait_for("logger.alter", "1", count=2)
    assert (failed["outcome"], altered["outcome"]) == ("failure", "success")
    assert (altered["before"], altered["after"]) == ({"odradek": "INFO"}, {"odradek": "DEBUG"})


def test_groups_and_their_offsets(node: Audited, wire: RawConnection, topic: str) -> None:
    new_topic(wire, topic)
    committed = {"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 2}]}
    fields = {"group_id": topic, "generation_id_or_member_epoch": -1, "member_id": "", "topics": [committed]}

    def commit() -> bool:
        wire.request(Api.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [topic]})
        response = wire.request(Api.OFFSET_COMMIT, 8, fields)
        return bool(response.topics[0].partitions[0].error_code is ErrorCode.none)

    until(commit, what="the coordinator", within_s=20)
    deleted = {"group_id": topic, "topics": [{"name": topic, "partitions": [{"partition_index": 0}]}]}
    wire.request(Api.OFFSET_DELETE, 0, deleted)
    (offsets,) = node.wait_for("group_offsets.delete", topic)
    assert offsets["before"] == {"partitions": {topic: [0]}}
    assert commit()
    wire.request(Api.DELETE_GROUPS, 2, {"groups_names": [topic, "missing"]})
    (group,) = node.wait_for("group.delete", topic)
    assert group["outcome"] == "success"
    (missing,) = node.wait_for("group.delete", "missing")
    assert (missing["outcome"], missing["error"]) == ("failure", "GROUP_ID_NOT_FOUND")


def test_only_administrators_end_transactions(node: Audited, wire: RawConnection, topic: str) -> None:
    new_topic(wire, topic)
    producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"x")
    # The coordinator's own markers are no administrative change.
    producer.commit_transaction(30)
    marker = {
        "producer_id": 4711,
        "producer_epoch": 0,
        "transaction_result": False,
        "topics": [{"name": topic, "partition_indexes": [0]}],
        "coordinator_epoch": 0,
    }
    wire.request(Api.WRITE_TXN_MARKERS, 1, {"markers": [marker]})
    (ended,) = node.wait_for("transaction.end")
    assert (ended["resource_type"], ended["resource_name"], ended["outcome"]) == ("PRODUCER", "4711", "success")
    assert ended["after"] == {"result": "ABORT", "producer_epoch": 0, "partitions": {topic: [0]}}


def test_requests_that_change_nothing_are_not_audited(node: Audited, wire: RawConnection, topic: str) -> None:
    fields = {"topics": [{"name": topic, "num_partitions": 1, "replication_factor": 1}], "timeout": 9000}
    wire.request(Api.CREATE_TOPICS, 7, {**fields, "validate_only": True})
    assert create_topic(wire, f"{topic}-later") is ErrorCode.none
    node.wait_for("topic.create", f"{topic}-later")
    assert not [one for one in node.events() if one["resource_name"] == topic]


def test_a_restart_continues_the_files_and_a_change_never_splits_a_line(tmp_path: Path) -> None:
    node = Audited(tmp_path / "node", audit_log_max_bytes="4096", audit_log_max_files="3", audit_log_format="ocsf")
    try:
        node.start()
        for round_ in range(2):
            with RawConnection(node.port) as wire:
                for number in range(15):
                    assert create_topic(wire, f"topic-{round_}-{number}") is ErrorCode.none
            # A clean stop writes everything.
            node.stop()
            if round_ == 0:
                node.start()
        files = sorted(one.name for one in node.audit_log.parent.glob("audit.log*"))
        assert files == ["audit.log", "audit.log.1", "audit.log.2"]
        lines = [
            json.loads(line)
            for name in reversed(files)
            for line in (tmp_path / "node" / name).read_bytes().splitlines()
        ]
        assert all((tmp_path / "node" / name).stat().st_size <= 4096 for name in files)
        created = [one["entity"]["name"] for one in lines if one["class_uid"] == 3004]
        assert created[-1] == "topic-1-14" and len(created) > 5
        assert created == [f"topic-1-{number}" for number in range(15)][-len(created) :]
    finally:
        node.remove()


def test_a_disk_that_hangs_stops_neither_requests_nor_the_node(tmp_path: Path) -> None:
    node = Audited(tmp_path / "node")
    # Its buffer is full after a few hundred events, and nothing reads it.
    os.mkfifo(node.audit_log)
    try:
        node.start()
        with RawConnection(node.port) as wire:
            topics = [{"name": f"t-{number}", "num_partitions": 1, "replication_factor": 1} for number in range(300)]
            wire.request(Api.CREATE_TOPICS, 7, {"topics": topics, "timeout": 60_000})
            assert create_topic(wire, "later") is ErrorCode.none
        began = time.monotonic()
        node.stop()
        assert time.monotonic() - began < 30
    finally:
        node.remove()


def test_a_node_does_not_start_without_its_audit_log(tmp_path: Path) -> None:
    node = Audited(tmp_path / "node", audit_log_file=str(tmp_path / "missing" / "audit.log"))
    with pytest.raises(Exception, match=r"audit\.log\.file=.*No such file or directory"):
        node.start()
    node.remove()

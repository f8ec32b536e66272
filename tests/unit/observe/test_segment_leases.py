"""Segment leases of a broker: all links or none, only for partitions that it leads, and errors for invalid requests."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from odradek.host.disk import HostDisk
from odradek.observe.endpoint import Call, Reply
from odradek.observe.segment_leases import SegmentLeases
from odradek.storage.log import leases
from odradek.storage.partition.partition import Partition
from tests.record_batches import TestRecord
from tests.unit.broker.fake_broker import FakeBroker, run

SPARK = ("spark", "0123456789abcdef")


class Stage:
    """A partition with three closed segments of one record, and an empty one."""

    def __init__(self, directory: Path, disk: HostDisk | None = None) -> None:
        self.broker = FakeBroker(directory / "logs")
        self.broker.add_topic("t", 1)
        for number in range(3):
            self.broker.append("t", TestRecord())
            self.partition.log.roll(number)
        self.credentials = directory / "credentials"
        self.credentials.write_text(" ".join((*SPARK, "*")))
        broker: Any = self.broker
        self.leases = SegmentLeases(broker, disk or HostDisk(), str(self.credentials))

    @property
    def partition(self) -> Partition:
        found = self.broker.partition("t", 0)
        assert found is not None
        return found

    def call(self, method: str = "POST", below: str = "", **query: str) -> Reply:
        wanted = query if below else {"topic": "t", "partition": "0", **query}
        reply: Reply = run(self.leases._respond(Call(method, below, wanted, SPARK)))
        return reply

    def links(self) -> list[str]:
        return [name for name in os.listdir(self.partition.log_dir) if leases.is_link(name)]


def test_lease_is_granted_listed_renewed_and_released(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    granted = stage.call()
    assert granted.status == 200
    assert [one["base_offset"] for one in granted.body["segments"]] == [0, 1, 2]
    assert all(os.path.getsize(one["file"]) == one["size"] > 0 for one in granted.body["segments"])
    (shown,) = stage.call("GET").body["leases"]
    assert (shown["principal"], shown["topic"], shown["segments"]) == ("spark", "t", 3)
    assert granted.body["lease"] not in str(shown)

    assert stage.call(below=granted.body["lease"], duration_ms="5").status == 200
    assert stage.call("DELETE", granted.body["lease"]).status == 200
    assert stage.call("DELETE", granted.body["lease"]).status == 404
    assert stage.call(below=granted.body["lease"]).status == 404
    assert not stage.links()


def test_lease_links_all_files_or_none(tmp_path: Path) -> None:
    class SecondFails(HostDisk):
        made = 0

        def link(self, source: str, target: str) -> None:
            self.made += 1
            if self.made == 2:
                raise OSError(errno.EMLINK, "too many")
            super().link(source, target)

    stage = Stage(tmp_path, SecondFails())
    rejected = stage.call()
    assert rejected.status == 503 and "cannot create a hard link: too many" in rejected.body["error"]
    assert not stage.links()


def test_failed_lease_leaves_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(tmp_path)
    monkeypatch.setattr(leases, "FILES_MAX", 2)
    assert stage.call().status == 429
    assert not stage.links()
    assert stage.call(start="1", end="2").status == 200
    assert len(stage.links()) == 1
    run(stage.leases.stop())
    assert not stage.links()


def test_lease_ends_at_the_high_watermark(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.partition.shared_high_watermark.offset = 2
    assert [one["limit"] for one in stage.call().body["segments"]] == [1, 2]
    stage.partition.shared_high_watermark.offset = 0
    assert stage.call().body["segments"] == []


def test_invalid_lease_requests_are_rejected(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    for query, why in (
        ({"partition": "x"}, "partition: not a whole number"),
        ({"start": "-1"}, "start: not a whole number"),
        ({"duration_ms": "9" * 30}, "duration_ms: not a whole number"),
    ):
        assert stage.call(**query) == Reply(400, {"error": why})
    assert stage.call("PUT").status == 405
    assert stage.call(partition="7") == Reply(409, {"error": "node 1 is not the leader of t-7"})
    stage.partition.is_leader = False
    assert stage.call() == Reply(409, {"error": "node 1 is not the leader of t-0"})
    assert not stage.links()


def test_lease_credentials_file_is_reloaded(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    assert stage.call().status == 200
    for text, status in (("spark another-of-its-secrets *", 401), ("nonsense", 503), (" ".join((*SPARK, "u*")), 403)):
        stage.credentials.write_text(text)
        changed = stage.credentials.stat().st_mtime_ns + status * 10**9
        os.utime(stage.credentials, ns=(changed, changed))
        assert stage.call().status == status
    stage.credentials.unlink()
    gone = stage.call()
    assert gone.status == 503 and "No such file" in gone.body["error"]

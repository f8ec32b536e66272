"""Segment leases of a broker: all links or none, only for partitions that it leads, and errors for invalid requests."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from odradek.base.principal import ANONYMOUS, Principal
from odradek.core.security.access import UNRESTRICTED
from odradek.core.security.resources import Operation
from odradek.host.disk import HostDisk
from odradek.observe.endpoint import Call, Reply
from odradek.observe.http_access import HttpClient, HttpDenied
from odradek.observe.segment_leases import SegmentLeases
from odradek.storage.log import leases
from odradek.storage.partition.partition import Partition
from tests.record_batches import TestRecord
from tests.unit.broker.fake_broker import FakeBroker, run
from tests.unit.fake_access import FakeAccess, on_cluster, on_topic

SPARK = HttpClient(Principal("User", "spark"), "127.0.0.1", UNRESTRICTED, can_authenticate=False)


class Stage:
    """A partition with three closed segments of one record, and an empty one."""

    def __init__(self, directory: Path, disk: HostDisk | None = None) -> None:
        self.broker = FakeBroker(directory / "logs")
        self.broker.add_topic("t", 1)
        for number in range(3):
            self.broker.append("t", TestRecord())
            self.partition.log.roll(number)
        broker: Any = self.broker
        self.leases = SegmentLeases(broker, disk or HostDisk())
        self.client = SPARK

    @property
    def partition(self) -> Partition:
        found = self.broker.partition("t", 0)
        assert found is not None
        return found

    def call(self, method: str = "POST", below: str = "", **query: str) -> Reply:
        wanted = query if below else {"topic": "t", "partition": "0", **query}
        reply: Reply = run(self.leases._respond(Call(method, below, wanted, self.client)))
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
    assert (shown["principal"], shown["topic"], shown["segments"]) == ("User:spark", "t", 3)
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


def test_lease_needs_read_on_the_topic(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    # A client on another computer, and operations that are not enough.
    others = FakeAccess(on_topic(Operation.DESCRIBE, "t"), on_topic(Operation.READ, "u"), on_cluster(Operation.READ))
    stage.client = SPARK._replace(host="10.1.2.3", access=others)
    with pytest.raises(HttpDenied, match="User:spark needs READ permission on topic 't'") as denied:
        stage.call()
    assert denied.value.status == 403
    assert not stage.links()
    # The same for a partition that does not exist.
    with pytest.raises(HttpDenied):
        stage.call(partition="7")
    stage.client = stage.client._replace(access=FakeAccess(on_topic(Operation.READ, "t")))
    assert stage.call().status == 200


def test_list_of_leases_needs_describe_on_the_cluster(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    assert stage.call().status == 200
    stage.client = SPARK._replace(access=FakeAccess(on_topic(Operation.READ, "t")))
    with pytest.raises(HttpDenied, match="User:spark needs DESCRIBE permission on the cluster"):
        stage.call("GET")
    stage.client = SPARK._replace(access=FakeAccess(on_cluster(Operation.DESCRIBE)))
    assert len(stage.call("GET").body["leases"]) == 1


def test_only_its_principal_renews_and_releases_a_lease(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    lease = stage.call().body["lease"]
    for principal in (ANONYMOUS, Principal("User", "other"), Principal("Service", "spark")):
        stage.client = SPARK._replace(principal=principal)
        assert stage.call(below=lease, duration_ms="5").status == 404
        assert stage.call("DELETE", lease).status == 404
    stage.client = SPARK
    assert stage.call("DELETE", lease).status == 200


def test_leases_without_an_authorizer_are_for_local_clients(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    for host in ("10.1.2.3", "2001:db8::1", ""):
        stage.client = SPARK._replace(host=host)
        with pytest.raises(HttpDenied, match="leases are for clients on the broker's computer"):
            stage.call()
    for host in ("127.0.0.1", "::1"):
        stage.client = SPARK._replace(host=host, principal=ANONYMOUS)
        assert stage.call().status == 200

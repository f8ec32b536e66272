"""The writer of the audit log: a bounded queue, a disk that fails or hangs, and events that say what is missing."""

import asyncio
import json
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.core.audit.event import DROPPED, STARTED, SUCCESS, AuditEvent
from odradek.host.clock import SystemClock
from odradek.host.rotated_file import RotatedFile
from odradek.observe import audit_log
from odradek.observe.audit_log import QUEUED_MAX, QUEUED_REJECTIONS_MAX, AuditLog

WAIT_SECONDS_MAX = 20.0


class Stage:
    def __init__(self, path: Path, **options: Any) -> None:
        self.path = path
        self.file = RotatedFile(str(path), bytes_max=1 << 30, files_max=2)
        self.log = AuditLog(self.file, 1, SystemClock(), **options)

    def offer(self, name: str, *, is_change: bool = True, size: int = 1) -> None:
        self.log.offer(lambda: [event(name)], is_change=is_change, size=size)

    def wait(self) -> None:
        """Until everything that has been offered is written, or dropped."""
        written = threading.Event()

        def build() -> Iterator[AuditEvent]:
            written.set()
            return iter(())

        self.log.offer(build, is_change=True)
        assert written.wait(WAIT_SECONDS_MAX)

    def stop(self) -> list[dict[str, Any]]:
        assert self.log.stop()
        return [json.loads(line) for line in self.path.read_text().splitlines()]


def event(name: str) -> AuditEvent:
    return AuditEvent(1, 1, name, SUCCESS)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path / "audit.log")
    yield stage
    stage.log.stop()


def names(events: list[dict[str, Any]]) -> list[str]:
    return [one["event"] for one in events]


def test_events_are_written_in_order(stage: Stage) -> None:
    stage.log.start()
    for number in range(50):
        stage.offer(str(number))
    assert names(stage.stop()) == [STARTED, *map(str, range(50))]
    assert stage.log.written == 51


def test_ocsf_format(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "audit.log", format_name="ocsf", version="1.2.3")
    stage.log.start()
    (started,) = stage.stop()
    assert (started["class_uid"], started["metadata"]["product"]["version"]) == (6002, "1.2.3")


def test_a_full_queue_drops_and_counts_but_never_waits(stage: Stage) -> None:
    for number in range(QUEUED_REJECTIONS_MAX + 10):
        stage.offer(f"denial {number}", is_change=False)
    # The rest of the queue is for changes.
    stage.offer("change", size=QUEUED_MAX - QUEUED_REJECTIONS_MAX)
    stage.offer("one too many")
    stage.log.count_dropped("rate")
    assert stage.log.dropped == {"queue": 11, "rate": 1, "write": 0}
    stage.log.start()
    events = stage.stop()
    assert len([one for one in events if one["event"].startswith("denial")]) == QUEUED_REJECTIONS_MAX
    assert "change" in names(events) and "one too many" not in names(events)
    dropped = [one["after"] for one in events if one["event"] == DROPPED]
    # The queue was still full when the log was started.
    assert sum(one["count"] for one in dropped) == sum(stage.log.dropped.values())
    assert sum(one.get("rate", 0) for one in dropped) == 1


def test_a_change_of_any_size_fits_an_empty_queue(stage: Stage) -> None:
    stage.log.start()
    stage.wait()
    stage.offer("large", size=QUEUED_MAX * 2)
    assert "large" in names(stage.stop())


def test_a_disk_that_cannot_be_written_is_logged_once_and_counted(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, audit_log.logger.name)
    stage.log.start()
    stage.wait()
    # A directory in its place: every write fails from now on.
    stage.path.unlink()
    stage.path.mkdir()
    for number in range(5):
        stage.offer(str(number))
    stage.wait()
    assert stage.log.dropped["write"] == 5
    stage.path.rmdir()
    stage.offer("later")
    events = stage.stop()
    assert names(events)[0] == "later"
    assert [one["after"] for one in events if one["event"] == DROPPED] == [{"count": 5, "write": 5}]
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert messages[0].startswith("Cannot write the audit log") and messages[1].endswith("can be written again")


def test_a_disk_that_hangs_blocks_neither_requests_nor_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(audit_log, "STOP_SECONDS_MAX", 0.05)
    path = tmp_path / "audit.log"
    # A write to a pipe that nothing reads blocks when the pipe is full.
    os.mkfifo(path)
    stage = Stage(path)
    stage.log.start()
    for number in range(QUEUED_MAX + 5_000):
        stage.offer(str(number))
    assert stage.log.dropped["queue"] > 0
    assert not stage.log.stop()
    assert "its disk does not respond" in caplog.text
    # The thread ends with the test.
    with open(path, "rb") as reader:
        while reader.read(1 << 16):
            pass


def test_a_file_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Stage(tmp_path / "missing" / "audit.log").log.start()


def test_a_bug_in_one_description_does_not_end_the_log(stage: Stage) -> None:
    def fail() -> list[AuditEvent]:
        raise ValueError("bug")

    stage.log.start()
    stage.log.offer(fail, is_change=True)
    stage.offer("later")
    events = stage.stop()
    assert "later" in names(events)
    assert stage.log.dropped["write"] == 1


def test_metrics(stage: Stage) -> None:
    stage.log.start()
    stage.log.count_dropped("rate")
    stage.stop()
    found = {
        (family.name, sample.labels.get("reason")): sample.value
        for family in asyncio.run(stage.log.families())
        for sample in family.samples
    }
    # The start, and the count of what is missing.
    assert found["odradek_audit_events", None] == 2
    assert found["odradek_audit_events_dropped", "rate"] == 1

"""What a run says of itself, from its beginning to whatever end it comes to."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from odradek.base.ids import TopicPartition
from odradek.pipelines.jobs import commands, run_status
from odradek.pipelines.jobs.audit import TableAuditSettings
from odradek.pipelines.jobs.commands import INTERRUPTED, SparkSettings
from odradek.pipelines.jobs.findings import Fault, Findings, PartitionFindings
from odradek.pipelines.jobs.interruption import interrupt_on_terminate
from odradek.pipelines.jobs.lock import find_holder, hold_lock
from odradek.pipelines.jobs.progress import PartitionProgress, Progress
from odradek.pipelines.jobs.run_status import RunStatus, RunWatch
from odradek.pipelines.jobs.state import JobState
from odradek.pipelines.jobs.stopping import stop_holder
from odradek.text.errors import UserError
from odradek.text.output import OutputFormat

pytestmark = pytest.mark.needs("pyarrow")

SPARK = SparkSettings(master="local", conf={})


def progress(rows: int, offset: int = 7) -> Progress:
    return Progress(
        batches=1,
        rows=rows,
        dead_letters=2,
        rows_per_second=50.0,
        seconds_left=0.1,
        partitions=(PartitionProgress(0, offset, 12),),
    )


def kept(directory: Path) -> RunStatus:
    found = RunStatus.read(directory)
    assert found is not None
    return found


def test_the_status_of_a_run_is_stored_from_start_to_end(tmp_path: Path) -> None:
    assert RunStatus.read(tmp_path) is None
    with RunWatch(tmp_path, "orders → table") as watch:
        assert (kept(tmp_path).state, kept(tmp_path).progress, kept(tmp_path).pid) == ("running", None, os.getpid())
        watch.take(progress(3))
        assert kept(tmp_path).progress == progress(3)
        watch.refresh(lambda: progress(4))
        assert kept(tmp_path).progress == progress(3), "it is not old yet"
        watch.end("stopped", progress(5))
    assert (kept(tmp_path).state, kept(tmp_path).what) == ("stopped", "orders → table")
    found = kept(tmp_path).progress
    assert found is not None and (found.rows, found.lag) == (5, 5)


def test_the_status_of_a_waiting_run_is_refreshed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_status, "_KEEP_S", -1.0)
    with RunWatch(tmp_path, "what") as watch:
        watch.refresh(lambda: progress(4))
        assert kept(tmp_path).progress == progress(4)
    assert kept(tmp_path).state == "done"


@pytest.mark.parametrize(
    ("error", "state", "failure"),
    [
        (UserError("there is no topic"), "failed", "there is no topic"),
        (RuntimeError("odd"), "failed", "RuntimeError: odd"),
        (KeyboardInterrupt(), "stopped", None),
    ],
)
def test_a_failure_is_stored_with_the_last_progress(
    tmp_path: Path, error: BaseException, state: str, failure: str | None
) -> None:
    with pytest.raises(type(error)), RunWatch(tmp_path, "what") as watch:
        watch.take(progress(3))
        raise error
    assert (kept(tmp_path).state, kept(tmp_path).failure, kept(tmp_path).progress) == (state, failure, progress(3))


def test_without_a_directory_no_status_is_stored(tmp_path: Path) -> None:
    with RunWatch(None, "what") as watch:
        watch.take(progress(1))
    assert list(tmp_path.iterdir()) == []


class Job:
    def __init__(self, run: Callable[[Callable[[], bool]], None]) -> None:
        self._run = run

    def progress(self) -> Progress:
        return progress(0)

    def has_work(self) -> bool:
        return True

    def run(
        self, session: Any, *, on_progress: Callable[[Progress], None], should_stop: Callable[[], bool]
    ) -> Progress:
        assert not should_stop()
        on_progress(progress(9))
        self._run(should_stop)
        return progress(10)


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def session(*arguments: Any, **named: Any) -> Iterator[None]:
        yield None

    monkeypatch.setattr(commands, "spark_session", session)


@pytest.mark.usefixtures("no_spark")
def test_the_status_shows_running_stopped_and_failed_jobs(tmp_path: Path) -> None:
    state = JobState(tmp_path, "orders")
    seen: list[RunStatus] = []

    def run(work: Callable[[Callable[[], bool]], None]) -> int:
        return commands.run_batches("n", "what", state, lambda: Job(work), SPARK, OutputFormat.TABLE)  # type: ignore[arg-type, return-value]

    def be_stopped(should_stop: Callable[[], bool]) -> None:
        seen.append(kept(state.directory))
        with pytest.raises(UserError, match="is still running"):
            # This process receives the request and keeps running, because it is the holder.
            stop_holder(state.lock, 0.0)
        assert should_stop()

    assert run(be_stopped) == INTERRUPTED
    assert [one.state for one in seen] == ["running"] and seen[0].progress == progress(9)
    assert (kept(state.directory).state, kept(state.directory).progress) == ("stopped", progress(10))
    assert not stop_holder(state.lock, 1.0)
    assert run(lambda should_stop: None) == 0
    assert kept(state.directory).state == "done"

    def fail(should_stop: Callable[[], bool]) -> None:
        raise UserError("no more")

    with pytest.raises(UserError):
        run(fail)
    assert (kept(state.directory).state, kept(state.directory).failure) == ("failed", "no more")


class Audit:
    def __init__(self, cluster: Any, settings: TableAuditSettings) -> None:
        self._count = 0 if settings.topic == "exact" else 3

    def run(self, session: Any) -> Findings:
        faults = {Fault.MISSING: self._count}
        one = PartitionFindings(
            partition=0, start=0, end=9, records=9, rows=6, dead_letters=2, checksum=1, rows_checksum=1, faults=faults
        )
        return Findings(partitions=(one,), named={})


@pytest.mark.usefixtures("no_spark")
def test_an_audit_stores_its_status_if_possible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "TableAudit", Audit)

    def audit(topic: str) -> int:
        settings = TableAuditSettings(bootstrap="", topic=topic, table=tmp_path, name="orders")
        return commands.audit_table(None, settings, SPARK, OutputFormat.JSON)  # type: ignore[arg-type]

    state = JobState(tmp_path, "orders")
    assert audit("exact") == 0
    assert not state.directory.exists(), "nothing is made for it"
    with state.hold():
        assert audit("exact") == 0
        assert (kept(state.audits).state, kept(state.audits).what) == ("done", f"exact = {tmp_path}")
        assert audit("other") == commands.NOT_EXACT
    found = kept(state.audits)
    assert (found.state, found.failure) == ("failed", "Not exact: 3 missing.")
    assert found.progress is not None and (found.progress.rows, found.progress.dead_letters) == (9, 2)
    with hold_lock(state.audits / "lock", ""):
        assert audit("exact") == 0
    assert kept(state.audits).state == "failed", "that is the other's place"


def test_stop_selects_the_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="has no jobs"):
        commands.stop(tmp_path, None, 1.0, is_audit=False)
    for name in ("one", "two"):
        with JobState(tmp_path, name).hold():
            JobState(tmp_path, name).identify({"topic": "t"})
        if name == "one":
            commands.stop(tmp_path, None, 1.0, is_audit=False)
    with pytest.raises(UserError, match="Choose one of one, two with --name"):
        commands.stop(tmp_path, None, 1.0, is_audit=False)
    commands.stop(tmp_path, "two", 1.0, is_audit=True)
    assert capsys.readouterr().err.splitlines() == ["Job one is not running.", "The audit of job two is not running."]


def test_an_audit_is_stopped_at_once(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), hold_lock(tmp_path / "lock", ""), interrupt_on_terminate():
        stop_holder(tmp_path / "lock", 5.0)
    assert find_holder(tmp_path / "lock") is None


def test_findings_as_progress() -> None:
    one = PartitionFindings(
        partition=0, start=0, end=9, records=9, rows=6, dead_letters=2, checksum=1, rows_checksum=2, faults={}
    )
    findings = Findings(partitions=(one,), named={})
    assert findings.faults_text() == "checksums differ"
    assert (findings.as_progress().rows, findings.as_progress().dead_letters, findings.as_progress().lag) == (9, 2, 0)
    one.faults.update({Fault.MISSING: 1, Fault.DOUBLE: 2000})
    assert (
        Findings(partitions=(one,), named={TopicPartition("t", 0): {}}).faults_text() == "1 missing, 2,000 duplicated"
    )

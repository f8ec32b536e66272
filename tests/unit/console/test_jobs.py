import sys
from pathlib import Path
from typing import cast

import pytest

from odradek.cli.job_command import parse_job_command
from odradek.client.cluster import Cluster
from odradek.console.actions import run_command
from odradek.console.actions.action import Refused
from odradek.console.actions.jobs import StartJob, StopJob
from odradek.console.queries.jobs import describe_jobs
from odradek.console.readings.pipelines import START, STOP, pipeline_rows, problem_sentences
from odradek.pipelines.job_command import JobCommand
from odradek.pipelines.jobs.lock import hold_lock
from odradek.pipelines.jobs.progress import PartitionProgress, Progress
from odradek.pipelines.jobs.run_status import RunStatus
from odradek.pipelines.jobs.state import JobState

pytestmark = pytest.mark.needs("pyarrow")

NO_CLUSTER = cast(Cluster, object())
HERE = "127.0.0.1:9092"
PROGRESS = Progress(
    batches=1,
    rows=1234,
    dead_letters=2,
    rows_per_second=50.0,
    seconds_left=2.0,
    partitions=(PartitionProgress(0, 10, 110),),
)


def job(table: Path, command: str = "ingest orders {} --follow --conf x.secret=hidden") -> JobCommand:
    return parse_job_command(command.format(table), "--job")


def rows(one: JobCommand) -> list[tuple[str, ...]]:
    names = ("pipeline", "state", "records", "lag", "letters")
    return [(*(row.text(name) for name in names), *row.actions) for row in pipeline_rows(describe_jobs([one]))]


def status(state: str, failure: str | None = None) -> RunStatus:
    return RunStatus(pid=1, state=state, at_ms=5, what="orders → <b>", progress=PROGRESS, failure=failure)


def test_job_row_shows_state_from_first_run_to_failure(tmp_path: Path) -> None:
    ingest = job(tmp_path)
    state = JobState(tmp_path, "orders")
    assert rows(ingest) == [("ingest orders", "never started", "", "", "", START)]
    with state.hold():
        assert rows(ingest) == [("ingest orders", "starting", "", "", "", STOP)]
        status("running").keep(state.directory)
        assert rows(ingest) == [("ingest orders", "running", "1,234", "100", "2", STOP)]
    assert rows(ingest)[0][1] == "stopped unexpectedly"
    status("failed", "Spark\x07 output no").keep(state.directory)
    assert rows(ingest)[0][1::4] == ("failed", START)
    assert problem_sentences(describe_jobs([ingest])) == "ingest orders: Spark\\x07 output no."
    (state.directory / "status.json").write_text("{}")
    assert rows(ingest)[0][1] == "unreadable"
    assert rows(job(tmp_path, "ingest a/b {}"))[0][1] == "unreadable"


def test_audit_and_load_jobs_are_shown_with_their_own_state(tmp_path: Path) -> None:
    audit, load = job(tmp_path, "audit orders {}"), job(tmp_path, "load {} orders")
    with JobState(tmp_path, "orders").hold():
        assert rows(audit)[0][1] == "never started", "the lock belongs to the ingest job, not to the audit"
    audits = JobState(tmp_path, "orders").audits
    audits.mkdir()
    with hold_lock(audits / "lock", ""):
        assert rows(audit) == [("audit orders", "starting", "", "", "", STOP)]
    with JobState(tmp_path, "load-orders").hold():
        status("running").keep(JobState(tmp_path, "load-orders").directory)
        assert rows(load)[0][3] == "100 batches"


def command(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(run_command, "ODRADEK", (sys.executable, "-c", program))


def test_job_is_started_and_stopped_through_the_cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_command, "REFUSAL_S", 2.0)
    ingest = job(tmp_path / "table")
    start, stop = StartJob(ingest, HERE), StopJob(ingest)
    for action in (start, stop):
        shown = f"{action.preview(NO_CLUSTER)} {action.target} {action.details()}"
        assert "orders" in shown and "hidden" not in shown
    command(monkeypatch, "import sys; sys.exit('{}\\nerror: there is no topic orders\\n')")
    with pytest.raises(Refused, match=r"The job did not start: there is no topic orders\."):
        start.carry_out(NO_CLUSTER)
    assert problem_sentences(describe_jobs([ingest])) == "ingest orders: there is no topic orders."
    command(monkeypatch, "import os, sys; print(sys.argv[1:], os.environ['ODRADEK_BOOTSTRAP'])")
    assert "is starting" in start.carry_out(NO_CLUSTER)
    output = (JobState(tmp_path / "table", "orders").directory / "console-run.log").read_text()
    assert output.startswith("['job', 'ingest', 'orders', ") and output.endswith(f"] {HERE}\n")
    command(monkeypatch, "import sys; sys.stderr.write(' '.join(sys.argv[1:]) + ': stopped\\n')")
    named = f"{tmp_path}/table --name orders --timeout 120.0: stopped."
    assert stop.carry_out(NO_CLUSTER) == f"Job stop {named}"
    audit = StopJob(job(tmp_path, "audit orders {}"))
    assert "--name orders --audit" in audit.carry_out(NO_CLUSTER)
    assert "immediately" in audit.preview(NO_CLUSTER).sentence
    command(monkeypatch, "import sys; sys.exit('error: process 7 still runs')")
    with pytest.raises(Refused, match="The job was not stopped: process 7 still runs"):
        stop.carry_out(NO_CLUSTER)


@pytest.mark.parametrize("text", ["audit orders {}", "load {} orders", "ingest orders {} --name a/b"])
def test_start_of_invalid_job_creates_no_files(tmp_path: Path, text: str) -> None:
    start = StartJob(job(tmp_path / "misspelled", text), HERE)
    with pytest.raises(Refused):
        start.preview(NO_CLUSTER)
    with pytest.raises(Refused):
        start.carry_out(NO_CLUSTER)
    assert list(tmp_path.iterdir()) == []

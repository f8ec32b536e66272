import sys
from pathlib import Path
from typing import Any, cast

import pytest

from odradek.client.cluster import Cluster
from odradek.console.actions import run_command
from odradek.console.actions.action import Refused
from odradek.console.actions.pipelines import StartPipeline, StopPipeline
from odradek.console.queries.pipelines import describe_pipelines
from odradek.console.readings.pipelines import START, STOP, pipeline_rows, problem_sentences
from odradek.pipelines.jobs.lock import hold_lock
from odradek.pipelines.jobs.pipeline.status import PipelineStatus, QueryStatus

pytestmark = pytest.mark.needs("pyarrow")

NO_CLUSTER = cast(Cluster, object())
FILE = """\
name: shop
sources: {orders: {topic: orders}}
sinks: {copy: {from: orders, topic: copies}}
state: state
"""
QUERY = QueryStatus(
    name="<b>copy",
    batch=3,
    records=1234,
    records_per_second=50.0,
    dead_letters=2,
    offsets={"orders": {"0": 10}},
    ends={"orders": {"0": 110}},
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "shop.yaml").write_text(FILE)
    (tmp_path / "state").mkdir()
    return tmp_path / "shop.yaml"


def rows(file: Path) -> list[tuple[str, ...]]:
    shown = pipeline_rows(describe_pipelines([file]))
    return [
        (*(row.text(name) for name in ("pipeline", "state", "query", "lag", "letters")), *row.actions) for row in shown
    ]


def test_pipeline_row_shows_state_from_first_run_to_failure(file: Path) -> None:
    state = file.parent / "state"
    assert rows(file) == [("shop", "never started", "", "", "", START)]
    with hold_lock(state / "lock", "held"):
        assert rows(file) == [("shop", "starting", "", "", "", STOP)]
        PipelineStatus(1, "running", 5, (QUERY, QUERY)).keep(state)
        assert rows(file) == [
            ("shop", "running", "<b>copy", "100", "2", STOP),
            ("shop", "running", "<b>copy", "100", "2"),
        ]
    assert rows(file)[0][1] == "stopped unexpectedly"
    PipelineStatus(1, "failed", 5, (QUERY,), "Spark\x07 said no").keep(state)
    assert rows(file)[0][1:2] + rows(file)[0][-1:] == ("failed", START)
    assert problem_sentences(describe_pipelines([file])) == "shop: Spark\\x07 said no."


def test_unreadable_pipeline_is_reported_with_its_problem(file: Path) -> None:
    torn = file.with_name("torn.yaml")
    torn.write_text("name: [")
    (file.parent / "state" / "status.json").write_text("{")
    first, second = describe_pipelines([file, torn])
    assert (first.state, second.state) == ("unreadable", "unreadable")
    assert "its state cannot be read" in str(first.problem)
    assert "invalid YAML" in str(second.problem)
    assert all(row.actions == () for row in pipeline_rows([first, second]))
    with pytest.raises(Refused, match="invalid YAML"):
        StartPipeline(torn).preview(NO_CLUSTER)


def command(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(run_command, "ODRADEK", (sys.executable, "-c", program))


def test_pipeline_is_started_and_stopped_through_the_cli(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_command, "REFUSAL_S", 2.0)
    assert "odradek pipeline run" in StartPipeline(file).preview(NO_CLUSTER).sentence
    command(monkeypatch, "import sys; sys.exit('{}\\nerror: there is no topic orders\\n')")
    with pytest.raises(Refused, match=r"did not start: there is no topic orders\."):
        StartPipeline(file).carry_out(NO_CLUSTER)
    assert problem_sentences(describe_pipelines([file])) == "shop: there is no topic orders."
    command(monkeypatch, "import sys; print(sys.argv)")
    assert "is starting" in StartPipeline(file).carry_out(NO_CLUSTER)
    assert "'run', " in (file.parent / "state" / "console-run.log").read_text()
    command(monkeypatch, "import sys; sys.stderr.write('shop: stopped\\n')")
    assert StopPipeline(file).carry_out(NO_CLUSTER) == "Shop: stopped."
    command(monkeypatch, "import sys; sys.exit('error: process 7 still runs')")
    with pytest.raises(Refused, match="was not stopped: process 7 still runs"):
        StopPipeline(file).carry_out(NO_CLUSTER)


def test_pipelines_without_the_jobs_extra_say_how_to_install_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        from odradek.text.errors import UserError

        raise UserError("yaml is not installed here: pip install 'odradek[jobs]'")

    monkeypatch.setattr("odradek.console.queries.pipelines.jobs_module", missing)
    (seen,) = describe_pipelines([file])
    assert "pip install 'odradek[jobs]'" in str(seen.problem)

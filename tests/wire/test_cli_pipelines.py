"""`odradek pipeline` before Spark starts: example files and their errors."""

from pathlib import Path

import pytest

from odradek.pipelines.jobs.lock import hold_lock
from odradek.pipelines.jobs.pipeline.status import PipelineStatus, QueryStatus
from tests.node_process import NodeProcess
from tests.wire.cli_call import Cli


@pytest.fixture
def cli(broker: NodeProcess, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    return Cli(monkeypatch, capfdbinary, broker.bootstrap)


def test_the_example_is_written_once_and_its_topics_are_checked(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    assert "odradek pipeline init" in cli.error_line("pipeline", "run", str(file))
    cli.ok("pipeline", "init", str(file))
    assert "already" in cli.error_line("pipeline", "init", str(file))
    for command in ("validate", "run"):
        said = cli.error_line("pipeline", command, str(file))
        assert all(f"Topic '{topic}' does not exist" in said for topic in ("orders", "totals", "orders-dead"))


def test_all_errors_of_a_file_are_reported(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text("name: shop\nsources: {a: {topic: t, schema: id}}\nsinks: {b: {from: c, table: d}}\n")
    said = cli.error_line("pipeline", "validate", str(file))
    assert "sources.a.schema" in said and "sinks.b.from: there is no view 'c'" in said


def test_status_of_a_pipeline(cli: Cli, tmp_path: Path, topic: str) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(f"name: shop\nsources: {{a: {{topic: {topic}}}}}\nsinks: {{b: {{from: a, table: d}}}}\n")
    assert cli("pipeline", "status", str(file)).code == 1
    assert "is not running" in cli.ok("pipeline", "stop", str(file)).messages

    state = tmp_path / ".odradek" / "shop"
    state.mkdir(parents=True)
    query = QueryStatus(name="b", batch=3, records=9, offsets={topic: {"0": 9}}, ends={topic: {"0": 12}})
    PipelineStatus(1, "running", 0, (query,)).keep(state)
    assert "ended unexpectedly" in cli("pipeline", "status", str(file)).messages
    with hold_lock(state / "lock", ""):
        assert "is already running" in cli.error_line("pipeline", "run", str(file))
        shown = cli.ok("pipeline", "status", str(file), "--format", "json").json
    assert (shown["runs"], shown["queries"][0]["lag"]) == (True, 3)


def test_the_state_of_another_pipeline_is_rejected(cli: Cli, tmp_path: Path, topic: str) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "pipeline").write_text("other\nx y\n")
    file = tmp_path / "shop.yaml"
    file.write_text(
        f"name: shop\nsources: {{a: {{topic: {topic}}}}}\nsinks: {{b: {{from: a, table: d}}}}\nstate: state\n"
    )
    assert "the state of pipeline 'other'" in cli.error_line("pipeline", "run", str(file))

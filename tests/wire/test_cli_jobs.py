"""Errors of `odradek job` before Spark starts: one line each, and nothing is written."""

import json
import sys
from pathlib import Path

import pytest

from odradek.base.ids import TopicPartition
from odradek.client.address import parse_bootstrap
from odradek.client.cluster import Cluster
from odradek.client.delete_records import delete_records
from odradek.pipelines.jobs.run_status import RunStatus
from odradek.pipelines.jobs.state import JobState
from tests.node_process import NodeProcess
from tests.wire.cli_call import Cli


@pytest.fixture
def cli(broker: NodeProcess, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    return Cli(monkeypatch, capfdbinary, broker.bootstrap)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table"


def test_missing_topics(cli: Cli, topic: str, table: Path) -> None:
    assert f"Topic '{topic}' does not exist" in cli.error_line("job", "ingest", topic, str(table))
    cli.ok("topic", "create", topic)
    assert "Topic 'dead' does not exist" in cli.error_line("job", "ingest", topic, str(table), "--dead-letters", "dead")
    assert "No job has written to this table" in cli.error_line("job", "audit", topic, str(table))
    assert "Topic 'other' does not exist" in cli.error_line("job", "audit", topic, "--against", "other")
    assert "Specify either a table or --against" in cli.error_line("job", "audit", topic)


def test_invalid_options(cli: Cli, topic: str, table: Path) -> None:
    cli.ok("topic", "create", topic)
    said = cli.error_line("job", "ingest", topic, str(table), "--schema", "id number")
    assert "unknown type 'number'" in said
    assert "--to 'soon'" in cli.error_line("job", "ingest", topic, str(table), "--to", "soon")
    assert "--from 'soon'" in cli.error_line("job", "ingest", topic, str(table), "--name", "b", "--from", "soon")
    assert "--name 'a/b'" in cli.error_line("job", "ingest", topic, str(table), "--name", "a/b")
    assert "is not a directory" in cli.error_line("job", "ingest", topic, "s3://bucket/table")
    assert "requires --schema-registry URL" in cli.error_line(
        "job", "ingest", topic, str(table), "--values", "registry"
    )
    schema = table.parent / "order.avsc"
    schema.write_text('{"type": "record", "name": "A", "fields": [{"name": "a", "type": "A"}]}')
    avro = ("--values", "avro", "--schema-file", str(schema))
    assert "is endless: A contains itself" in cli.error_line("job", "ingest", topic, str(table), *avro)
    assert "mutually exclusive" in cli.error_line("job", "ingest", topic, str(table), "--follow", "--to", "end")
    assert "require --as iceberg" in cli.error_line("job", "ingest", topic, str(table), "--catalog", "sqlite:///x.db")


def test_spark_is_not_started_without_records(
    cli: Cli, topic: str, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "nowhere")
    cli.ok("topic", "create", topic)
    done = cli.ok("job", "ingest", topic, str(table), "--format", "json").json
    assert (done["event"], done["rows"], done["lag"]) == ("done", 0, 0)
    page = table.parent / "skew.html"
    assert "The topic has no records." in cli.ok("job", "skew", topic, "--report", str(page)).messages
    assert f"Skew of {topic}" in page.read_text()
    assert "--report: directory not found" in cli.error_line("job", "skew", topic, "--report", str(page / "none" / "x"))
    status = RunStatus.read(JobState(table, topic).directory)
    assert status is not None and (status.state, status.what) == ("done", f"{topic} → {table}")
    assert f"Job {topic} is not running." in cli.ok("job", "stop", str(table)).messages
    assert "has no jobs" in cli.error_line("job", "stop", str(table.parent))


def test_the_state_of_another_job_is_rejected(cli: Cli, topic: str, table: Path, tmp_path: Path) -> None:
    for name in (topic, f"{topic}-2"):
        cli.ok("topic", "create", name)
    cli.ok("job", "ingest", topic, str(table))
    assert "belongs to another job: its topic is" in cli.error_line(
        "job", "ingest", f"{topic}-2", str(table), "--name", topic
    )
    assert "its format is 'delta'" in cli.error_line("job", "ingest", topic, str(table), "--as", "parquet")
    assert "its from is 'beginning'" in cli.error_line("job", "ingest", topic, str(table), "--from", "end")
    with JobState(table, topic).hold():
        assert "is already running" in cli.error_line("job", "ingest", topic, str(table))

    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "rows.parquet").write_bytes(b"")
    assert "is not a Delta table" in cli.error_line("job", "ingest", topic, str(foreign))
    assert "without _spark_metadata" in cli.error_line("job", "ingest", topic, str(foreign), "--as", "parquet")


def test_the_state_of_another_pipeline_is_rejected(broker: NodeProcess, cli: Cli, topic: str, tmp_path: Path) -> None:
    for name in ("first", "second"):
        sinks = f"{{out: {{from: all_of_it, topic: {topic}-out}}}}"
        (tmp_path / f"{name}.yaml").write_text(
            f"{{name: {name}, bootstrap: '{broker.bootstrap}', state: state, sinks: {sinks},"
            f" sources: {{all_of_it: {{topic: {topic}}}}}}}"
        )
    assert f"Topic {topic!r} does not exist" in cli.error_line("pipeline", "run", str(tmp_path / "first.yaml"))
    message = cli.error_line("pipeline", "run", str(tmp_path / "second.yaml"))
    assert "contains the state of pipeline 'first'" in message
    assert message.endswith("Choose another directory with `state`.")


def test_deleted_records_and_topics(broker: NodeProcess, cli: Cli, topic: str, table: Path) -> None:
    cli.ok("topic", "create", topic)
    cli.ok("job", "ingest", topic, str(table))
    cli.ok("produce", topic, "{}", "{}", "{}")
    with Cluster(parse_bootstrap(broker.bootstrap)) as cluster:
        delete_records(cluster, {TopicPartition(topic, 0): 2})
    said = cli.error_line("job", "ingest", topic, str(table))
    assert f"Offset 0 of {topic}-0 is no longer available" in said and "--skip-lost" in said

    cli.ok("topic", "delete", topic, "--yes")
    cli.ok("topic", "create", topic)
    assert "deleted and recreated" in cli.error_line("job", "ingest", topic, str(table))


def test_missing_requirements_of_spark(
    cli: Cli, topic: str, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.ok("topic", "create", topic)
    cli.ok("produce", topic, "{}")
    monkeypatch.setenv("JAVA_HOME", "nowhere")
    assert "no bin/java" in cli.error_line("job", "ingest", topic, str(table))

    old = tmp_path / "old" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'java version \"1.8.0_402\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(old.parent.parent))
    assert "is Java 8. Install JDK 17" in cli.error_line("job", "ingest", topic, str(table))

    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "Spark needs Java 17, which is not installed" in cli.error_line("job", "ingest", topic, str(table))

    monkeypatch.setitem(sys.modules, "py4j.protocol", None)
    # Others may have imported it while it was there.
    monkeypatch.delitem(sys.modules, "odradek.pipelines.jobs.java_process", raising=False)
    assert "pip install 'odradek[jobs]'" in cli.error_line("job", "ingest", topic, str(table))
    assert json.loads((table / "_odradek" / topic / "job.json").read_text())["topic"] == topic


def test_invalid_rewrites(broker: NodeProcess, cli: Cli, topic: str, tmp_path: Path) -> None:
    target, state = f"{topic}-2", ("--state", str(tmp_path))
    rewrite = ("job", "rewrite", topic, target, *state)
    assert f"Topic '{topic}' does not exist" in cli.error_line(*rewrite)
    cli.ok("topic", "create", topic)
    assert "cannot be rewritten to itself" in cli.error_line("job", "rewrite", topic, topic, *state)
    assert "does not exist" in cli.error_line(*rewrite, "--without-keys", str(tmp_path / "none"))
    assert "is not an ISO 8601 duration" in cli.error_line(*rewrite, "--deduplicate", "soon")
    assert "mutually exclusive" in cli.error_line(*rewrite, "--key", "value", "--key-field", "id")
    assert "must not contain '.task.'" in cli.error_line(*rewrite, "--name", "a.task.b")
    assert "--tables requires --without-keys" in cli.error_line(*rewrite, "--tables", str(tmp_path))
    said = cli.error_line("job", "audit", topic, "--against", target, "--rewritten", *state)
    assert f"has no job 'rewrite-{topic}-{target}'" in said
    assert "has no rewrite job" in cli.error_line("job", "switch", topic, target, *state)

    cli.ok("topic", "create", target, "--partitions", "3")
    assert "already exists with 3 partitions, not 4" in cli.error_line(*rewrite, "--partitions", "4")
    cli.ok("produce", target, "not of this job")
    assert "contains records that this job did not write" in cli.error_line(*rewrite)
    cli.ok("produce", topic, "{}", "{}")
    with Cluster(parse_bootstrap(broker.bootstrap)) as cluster:
        delete_records(cluster, {TopicPartition(topic, 0): 1})
    other = ("job", "rewrite", topic, f"{topic}-3", *state)
    assert "retention has deleted all records before offset 1" in cli.error_line(*other, "--from", "0")

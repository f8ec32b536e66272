"""Pipelines as files: the example works, and what is wrong is said all at once."""

from pathlib import Path
from typing import Any

import pytest

from odradek.pipelines.jobs.pipeline.definition import parse_pipeline, read_pipeline
from odradek.pipelines.jobs.pipeline.example import example
from odradek.text.errors import UserError

pytestmark = pytest.mark.needs("yaml")


def test_the_example_is_a_pipeline(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(example("orders", "broker:9092", file.name))
    pipeline = read_pipeline(file)
    assert (pipeline.name, pipeline.bootstrap, pipeline.interval) == ("orders", "broker:9092", None)
    assert pipeline.topics() == ["orders", "totals", "orders-dead"]
    assert pipeline.sinks[0].table == tmp_path / "tables" / "large_orders"
    assert pipeline.sinks[1].mode == "update"
    assert pipeline.state == tmp_path / ".odradek" / "orders"


def form(**changes: Any) -> dict[str, Any]:
    base = {
        "name": "p",
        "sources": {"orders": {"topic": "orders"}},
        "transformations": {"big": "SELECT * FROM orders;"},
        "sinks": {"out": {"from": "big", "topic": "big"}},
    }
    return {key: value for key, value in (base | changes).items() if value is not None}


def test_pipeline_defaults(tmp_path: Path) -> None:
    pipeline = parse_pipeline(form(trigger="10s"), directory=tmp_path)
    assert pipeline.interval == "10 seconds"
    assert pipeline.transformations == {"big": "SELECT * FROM orders"}
    assert (pipeline.sources[0].schema, pipeline.sources[0].start, pipeline.dead_letters) == (None, "beginning", None)
    assert pipeline.command_config is None


def test_command_config_is_relative_to_the_pipeline_file(tmp_path: Path) -> None:
    """What is in them is for who connects: a status, or a stop, does without."""
    pipeline = parse_pipeline(form(command_config="client.properties"), directory=tmp_path)
    assert pipeline.command_config == tmp_path / "client.properties"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": None}, "name: is missing"),
        ({"name": "a b"}, "use only the characters"),
        ({"sorces": {}}, "sorces: unknown key, did you mean 'sources'?"),
        ({"sources": None}, "sources: at least one is required"),
        ({"sources": ["orders"]}, "sources: must be a mapping"),
        ({"sources": {"orders": {}}}, "sources.orders.topic: is missing"),
        ({"sources": {"a-b": {"topic": "x"}}}, "sources.a-b: is not a valid name"),
        ({"sources": {"orders": {"topic": "x", "schema": "id number"}}}, "unknown type 'number'"),
        ({"sources": {"orders": {"topic": "x", "from": "now"}}}, "use beginning or end"),
        ({"sources": {"orders": {"topic": "x", "watermark": "at"}}}, "use a column and a delay"),
        ({"sinks": {"a": {"from": "big", "table": "t", "catalog": "c"}}}, "only for tables with format iceberg"),
        ({"transformations": {"big": ""}}, "requires a SQL query"),
        ({"transformations": {"big": {"python": "a.py:f"}}}, "transformations.big.from: is missing"),
        ({"transformations": {"big": {"from": "orders"}}}, "transformations.big.python: is missing"),
        ({"transformations": {"big": {"python": 1, "from": ["orders"]}}}, "1 is not text"),
        ({"transformations": {"big": {"python": "a:f", "from": "order"}}}, "no view 'order' before it, did you mean"),
        ({"transformations": {"big": {"pythn": "a.py:f", "from": "orders"}}}, "did you mean 'python'?"),
        ({"transformations": {"orders": "SELECT 1"}}, "a source has the same name"),
        ({"sinks": {"out": {"from": "bigg", "topic": "x"}}}, "did you mean 'big'?"),
        ({"sinks": {"out": {"from": "big"}}}, "set either table or topic"),
        ({"sinks": {"out": {"from": "big", "table": "t", "topic": "x"}}}, "set either table or topic"),
        ({"sinks": {"out": {"from": "big", "table": "t", "format": "csv"}}}, "use one of delta, parquet, iceberg"),
        ({"sinks": {"out": {"from": "big", "table": "t", "mode": "update"}}}, "tables only support append"),
        ({"sinks": {"out": {"from": "big", "table": "t", "key": "id"}}}, "only for topics"),
        ({"trigger": "often"}, "use once or an interval"),
    ],
)
def test_invalid_input_is_reported(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_pipeline(form(**changes), directory=tmp_path)
    assert said in str(raised.value)


def test_all_errors_of_a_pipeline_are_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"name: is missing.*trigger: 'often'"):
        parse_pipeline(form(name=None, trigger="often"), directory=tmp_path)


@pytest.mark.parametrize(
    ("text", "said"), [("a: [", "line 1"), ("- a", "must be a mapping"), ("", "must be a mapping")]
)
def test_invalid_pipeline_files(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=said):
        read_pipeline(file)


def test_yaml_makes_no_objects(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("name: !!python/object/apply:os.getpid []")
    with pytest.raises(UserError, match="invalid YAML"):
        read_pipeline(file)

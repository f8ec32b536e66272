"""Which files a load reads, and in which batches."""

from pathlib import Path

import pytest

from odradek.pipelines.jobs.load_plan import LoadPlan, SourceKind, default_columns, in_batches, make_plan
from odradek.text.errors import UserError

pytestmark = pytest.mark.needs("pyarrow")


def test_neighbours_share_a_batch_up_to_its_size() -> None:
    sized = [("a", 3), ("b", 3), ("c", 3), ("d", 30), ("e", 1)]
    assert list(in_batches(sized, 6)) == [["a", "b"], ["c"], ["d"], ["e"]]
    assert list(in_batches([], 6)) == []


def test_hidden_files_are_not_loaded_and_the_plan_is_stored(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "day=1/c.json", "_odradek/x.json", ".hidden.json", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}\n")
    plan = make_plan(tmp_path, 1000)
    assert plan == LoadPlan(
        SourceKind.JSON, (tuple(str(tmp_path / name) for name in ("a.jsonl", "b.jsonl", "day=1/c.json")),)
    )
    plan.keep(tmp_path / "plan.json")
    assert LoadPlan.read(tmp_path / "plan.json") == plan
    assert LoadPlan.read(tmp_path / "other.json") is None


def test_invalid_load_sources(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        make_plan(tmp_path / "nowhere", 1)
    with pytest.raises(UserError, match="neither Parquet nor JSON"):
        make_plan(tmp_path, 1)
    (tmp_path / "a.json").write_text("")
    (tmp_path / "a.parquet").write_text("")
    with pytest.raises(UserError, match="both Parquet and JSON"):
        make_plan(tmp_path, 1)


def test_load_restores_the_records_of_an_ingested_table() -> None:
    names = ["_topic", "_partition", "_offset", "_timestamp", "_key", "id"]
    assert default_columns(names, None) == ("_key", ["id"])
    assert default_columns(names, "id") == ("id", ["id"])
    assert default_columns(["id", "_key"], None) == (None, ["id", "_key"])

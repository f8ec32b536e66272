"""Batches of a table count once, wholly, whoever else writes to it."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from odradek.cli.errors import UserError
from odradek.jobs.tables import delta
from odradek.jobs.tables.table import NO_BATCH, DataFile, TableFormat, open_table

SCHEMA = pa.schema([("id", pa.int64())])


def data_file(table: Path, name: str, *ids: int) -> DataFile:
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), table / name)
    return DataFile(name, (table / name).stat().st_size, 1, len(ids))


@pytest.mark.parametrize("format", list(TableFormat))
def test_a_batch_counts_once(tmp_path: Path, format: TableFormat) -> None:
    table = open_table(format, tmp_path)
    assert table.last_batch("job") == NO_BATCH
    table.check_new()
    table.shape(SCHEMA)
    for batch in range(12):
        file = data_file(tmp_path, f"part {batch}.parquet", batch)
        table.commit("job", batch, [file])
        table.commit("job", batch, [file])
        with pytest.raises(UserError, match="another run"):
            table.commit("job", batch, [data_file(tmp_path, f"again-{batch}.parquet", batch)])
    assert open_table(format, tmp_path).last_batch("job") == 11
    assert sorted(map(os.path.basename, table.files())) == sorted(f"part {batch}.parquet" for batch in range(12))
    assert all(Path(one).is_file() for one in table.files())
    table.commit("job", 12, [])
    assert table.last_batch("job") == 12


def test_sparks_log_is_as_spark_writes_it(tmp_path: Path) -> None:
    table = open_table(TableFormat.PARQUET, tmp_path)
    table.shape(SCHEMA)
    for batch in range(11):
        table.commit("job", batch, [data_file(tmp_path, f"{batch}.parquet", batch)])
    log = tmp_path / "_spark_metadata"
    assert sorted(file.name for file in log.iterdir()) == sorted([*map(str, range(9)), "9.compact", "10"])
    version, *lines = (log / "9.compact").read_text().split("\n")
    assert version == "v1" and len(lines) == 10
    assert json.loads(lines[0])["path"] == (tmp_path / "0.parquet").as_uri()
    with pytest.raises(UserError, match="ends with batch 10, and this is batch 12"):
        table.commit("job", 12, [])
    with pytest.raises(UserError, match="belongs to one job"):
        table.check_new()


def test_two_runs_of_one_batch_leave_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have looked at the same version: the second one to commit is refused, and reads again."""
    monkeypatch.setattr(delta, "_PAUSE_S", 0.0)
    table = open_table(TableFormat.DELTA, tmp_path)
    table.shape(SCHEMA)
    opened = delta.DeltaLakeTable._open
    overtaken = False

    def overtake(self: Any) -> Any:
        nonlocal overtaken
        found = opened(self)
        if not overtaken:
            overtaken = True
            open_table(TableFormat.DELTA, tmp_path).commit("job", 0, [data_file(tmp_path, "theirs.parquet", 1)])
        return found

    with monkeypatch.context() as planted:
        planted.setattr(delta.DeltaLakeTable, "_open", overtake)
        with pytest.raises(UserError, match="another run of job 'job' has committed batch 0"):
            table.commit("job", 0, [data_file(tmp_path, "ours.parquet", 1)])
    assert [os.path.basename(one) for one in table.files()] == ["theirs.parquet"]


def test_others_may_write_to_a_delta_table_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta, "_PAUSE_S", 0.0)
    table = open_table(TableFormat.DELTA, tmp_path)
    table.shape(SCHEMA)
    opened, others = delta.DeltaLakeTable._open, iter(range(2))

    def somebody_commits(self: Any) -> Any:
        found = opened(self)
        for _ in others:
            write_deltalake(str(tmp_path), pa.table({"id": pa.array([9], pa.int64())}), mode="append")
            break
        return found

    with monkeypatch.context() as planted:
        planted.setattr(delta.DeltaLakeTable, "_open", somebody_commits)
        table.commit("job", 0, [data_file(tmp_path, "ours.parquet", 1, 2)])
    assert DeltaTable(str(tmp_path)).count() == 4
    table.commit("other job", 0, [data_file(tmp_path, "other.parquet", 3)])
    assert (table.last_batch("job"), table.last_batch("other job")) == (0, 0)


def test_columns_are_added_and_not_changed(tmp_path: Path) -> None:
    table = open_table(TableFormat.DELTA, tmp_path)
    table.shape(SCHEMA)
    wider = pa.schema([*SCHEMA, ("tags", pa.list_(pa.string())), ("price", pa.decimal128(9, 2))])
    table.shape(wider)
    table.shape(wider)
    assert table.columns() is not None and table.columns().names == wider.names
    assert DeltaTable(str(tmp_path)).version() == 1
    with pytest.raises(UserError, match="'id' of the table is of type int64"):
        table.shape(pa.schema([("id", pa.string())]))

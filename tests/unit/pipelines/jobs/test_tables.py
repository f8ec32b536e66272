"""A table has each batch once and completely, even if other writers commit to it."""

import json
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table import Table as CatalogTable

from odradek.pipelines.jobs.tables import delta, iceberg
from odradek.pipelines.jobs.tables.catalogs import CatalogPlace, open_catalog
from odradek.pipelines.jobs.tables.table import NO_BATCH, DataFile, Table, TableFormat, open_table
from odradek.text.errors import UserError

pytestmark = pytest.mark.needs("pyarrow")

SCHEMA = pa.schema([("id", pa.int64())])


def data_file(table: Path, name: str, *ids: int) -> DataFile:
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), table / name)
    return DataFile(name, (table / name).stat().st_size, 1, len(ids))


@pytest.mark.parametrize("format", list(TableFormat))
def test_a_batch_is_committed_once(tmp_path: Path, format: TableFormat) -> None:
    table = open_table(format, tmp_path)
    assert table.last_batch("job") == NO_BATCH
    table.check_new()
    table.shape(SCHEMA)
    for batch in range(12):
        file = data_file(tmp_path, f"part {batch}.parquet", batch)
        table.commit("job", batch, [file])
        table.commit("job", batch, [file])
        with pytest.raises(UserError, match="Another run"):
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
    with pytest.raises(UserError, match="ends with batch 10, so batch 12 cannot follow"):
        table.commit("job", 12, [])
    with pytest.raises(UserError, match="belongs to one job"):
        table.check_new()


class Library(NamedTuple):
    """Of tables that several may write to at once."""

    format: TableFormat
    module: Any
    table: Any
    opens: str
    append: Callable[[Path, Any], None]
    count: Callable[[Path], int]


def append_to_delta(directory: Path, rows: Any) -> None:
    write_deltalake(str(directory), rows, mode="append")


def iceberg_table(directory: Path) -> Any:
    return open_catalog(CatalogPlace(), directory).load_table(CatalogPlace.of(directory, None).identifier)


DELTA = Library(
    TableFormat.DELTA,
    delta,
    delta.DeltaLakeTable,
    "_open",
    append_to_delta,
    lambda directory: DeltaTable(str(directory)).count(),
)
ICEBERG = Library(
    TableFormat.ICEBERG,
    iceberg,
    iceberg.IcebergTable,
    "_load",
    lambda directory, rows: iceberg_table(directory).append(rows),
    lambda directory: iceberg_table(directory).scan().to_arrow().num_rows,
)


@pytest.fixture(params=[DELTA, ICEBERG], ids=["delta", "iceberg"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Library:
    monkeypatch.setattr(request.param.module, "_PAUSE_S", 0.0)
    return request.param


def new_table(library: Library, directory: Path) -> Table:
    table = open_table(library.format, directory)
    table.check_new()
    table.shape(SCHEMA)
    return table


def test_two_runs_of_one_batch_leave_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: Library) -> None:
    """Both have looked at the same version: the second one to commit is refused, and reads again."""
    table = new_table(library, tmp_path)
    opened = getattr(library.table, library.opens)
    overtaken = False

    def overtake(self: Any) -> Any:
        nonlocal overtaken
        found = opened(self)
        if not overtaken:
            overtaken = True
            open_table(library.format, tmp_path).commit("job", 0, [data_file(tmp_path, "theirs.parquet", 1)])
        return found

    with monkeypatch.context() as planted:
        planted.setattr(library.table, library.opens, overtake)
        with pytest.raises(UserError, match="Another run of job 'job' has committed batch 0"):
            table.commit("job", 0, [data_file(tmp_path, "ours.parquet", 1)])
    assert [os.path.basename(one) for one in table.files()] == ["theirs.parquet"]


def test_others_may_write_to_a_table_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: Library) -> None:
    table = new_table(library, tmp_path)
    opened, others = getattr(library.table, library.opens), iter(range(2))

    def commit_concurrently(self: Any) -> Any:
        found = opened(self)
        for _ in others:
            library.append(tmp_path, pa.table({"id": pa.array([9], pa.int64())}))
            break
        return found

    with monkeypatch.context() as planted:
        planted.setattr(library.table, library.opens, commit_concurrently)
        table.commit("job", 0, [data_file(tmp_path, "ours.parquet", 1, 2)])
    assert library.count(tmp_path) == 4
    table.commit("other job", 0, [data_file(tmp_path, "other.parquet", 3)])
    assert (table.last_batch("job"), table.last_batch("other job")) == (0, 0)
    assert library.count(tmp_path) == 5


def test_columns_are_added_and_not_changed(tmp_path: Path, library: Library) -> None:
    table = new_table(library, tmp_path)
    wider = pa.schema([*SCHEMA, ("tags", pa.list_(pa.string())), ("price", pa.decimal128(9, 2))])
    table.commit("job", 0, [data_file(tmp_path, "narrow.parquet", 1)])
    table.shape(wider)
    table.shape(wider)
    assert table.columns() is not None and table.columns().names == wider.names
    rows = pa.table({"id": [2], "tags": [["a"]], "price": pa.array([Decimal("1.50")], pa.decimal128(9, 2))})
    pq.write_table(rows, tmp_path / "wide.parquet")
    table.commit("job", 1, [DataFile("wide.parquet", (tmp_path / "wide.parquet").stat().st_size, 1, 1)])
    assert library.count(tmp_path) == 2
    with pytest.raises(UserError, match="'id' of the table has type int64"):
        table.shape(pa.schema([("id", pa.string())]))


def test_a_delta_table_is_altered_only_for_missing_columns(tmp_path: Path) -> None:
    table = new_table(DELTA, tmp_path)
    table.shape(SCHEMA)
    assert DeltaTable(str(tmp_path)).version() == 0


def test_the_library_does_not_put_a_batch_behind_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyIceberg tries again by itself, on what others have left, if the table does not say otherwise."""
    table = new_table(ICEBERG, tmp_path)
    tried = []
    commit = CatalogTable._do_commit

    def fails(self: Any, *arguments: Any, **more: Any) -> None:
        tried.append(arguments)
        if len(tried) < 3:
            raise CommitFailedException("another writer committed first")
        commit(self, *arguments, **more)

    looked = []
    load = iceberg.IcebergTable._load
    with monkeypatch.context() as planted:
        planted.setattr(CatalogTable, "_do_commit", fails)
        planted.setattr(iceberg.IcebergTable, "_load", lambda self: (looked.append(0), load(self))[1])
        table.commit("job", 0, [data_file(tmp_path, "ours.parquet", 1)])
    assert (len(tried), len(looked)) == (3, 3), "each try looks at the marker first"
    assert "commit.retry.num-retries" not in iceberg_table(tmp_path).properties


def test_a_commit_with_unknown_outcome_checks_the_marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(ICEBERG, tmp_path)
    commit = CatalogTable._do_commit

    def vanishes(self: Any, *arguments: Any, **more: Any) -> None:
        commit(self, *arguments, **more)
        raise CommitStateUnknownException("the response was lost")

    with monkeypatch.context() as planted:
        planted.setattr(CatalogTable, "_do_commit", vanishes)
        table.commit("job", 0, [data_file(tmp_path, "ours.parquet", 1)])
    assert ICEBERG.count(tmp_path) == 1


def test_the_place_of_an_iceberg_table_is_stored(tmp_path: Path) -> None:
    place = CatalogPlace(f"sqlite:///{tmp_path}/all.db", "shop.orders")
    directory = tmp_path / "orders"
    table = open_table(TableFormat.ICEBERG, directory, place)
    table.check_new()
    table.shape(SCHEMA)
    assert open_catalog(place, directory).list_tables("shop") == [("shop", "orders")]
    # Once is enough.
    assert open_table(TableFormat.ICEBERG, directory).columns() == SCHEMA
    with pytest.raises(UserError, match=r"The table is shop\.orders in sqlite.*, not shop\.sales"):
        open_table(TableFormat.ICEBERG, directory, CatalogPlace(None, "shop.sales"))
    with pytest.raises(UserError, match="must not contain a password") as refused:
        open_table(TableFormat.ICEBERG, tmp_path / "new", CatalogPlace("https://me:ungeziefer@lake.example/"))
    assert "ungeziefer" not in str(refused.value)
    with pytest.raises(UserError, match="Cannot open catalog lake"):
        open_table(TableFormat.ICEBERG, tmp_path / "new", CatalogPlace("lake")).last_batch("job")
    with pytest.raises(UserError, match=r"Write NAMESPACE\.NAME"):
        open_table(TableFormat.ICEBERG, tmp_path / "new", CatalogPlace(None, "orders"))

"""A batch is committed once to an Iceberg table in a real REST catalog, even if requests or responses get lost."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog

from odradek.pipelines.jobs.tables import iceberg
from odradek.pipelines.jobs.tables.catalogs import CatalogPlace
from odradek.pipelines.jobs.tables.table import NO_BATCH, DataFile, Table, TableFormat, open_table
from odradek.text.errors import UserError
from tests.catalog_front import CatalogFront, Fault, catalog_front
from tests.node_process import free_ports
from tests.rest_catalog import RestCatalogServer

pytestmark = [pytest.mark.spark, pytest.mark.tier("proof")]

SCHEMA = pa.schema([("id", pa.int64())])
TOKEN = "token-ungeziefer"
TOKEN_SETTING = "PYICEBERG_CATALOG__ODRADEK__TOKEN"
CREDENTIAL_SETTING = "PYICEBERG_CATALOG__ODRADEK__CREDENTIAL"


@pytest.fixture
def front(rest_catalog: RestCatalogServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[CatalogFront]:
    monkeypatch.setenv(TOKEN_SETTING, TOKEN)
    monkeypatch.setattr(iceberg, "_PAUSE_S", 0.0)
    monkeypatch.setattr(iceberg, "_NO_RESPONSE_PAUSE_S", 0.01)
    with catalog_front(rest_catalog.port) as opened:
        opened.token = TOKEN
        yield opened


class Orders:
    """A table of the catalog, named by the directory, as a job sees it and as others do."""

    def __init__(self, directory: Path, address: str, server: RestCatalogServer) -> None:
        self.directory = directory
        self.place = CatalogPlace(address, f"shop.{directory.parent.name.replace('-', '_')}")
        self._server = server
        self.table = self.open()
        self.table.check_new()
        self.table.shape(SCHEMA)

    def open(self) -> Table:
        return open_table(TableFormat.ICEBERG, self.directory, self.place)

    def file(self, name: str, **columns: list[Any]) -> DataFile:
        rows = pa.table(columns)
        pq.write_table(rows, self.directory / name)
        return DataFile(name, (self.directory / name).stat().st_size, 1, rows.num_rows)

    def of_others(self) -> Any:
        """The table as another client reads it from the catalog."""
        return load_catalog("others", type="rest", uri=self._server.address).load_table(self.place.identifier)

    def rows(self) -> list[dict[str, Any]]:
        return sorted(self.of_others().scan().to_arrow().to_pylist(), key=lambda row: row["id"])

    def ids(self) -> list[int]:
        return [row["id"] for row in self.rows()]


@pytest.fixture
def orders(tmp_path: Path, front: CatalogFront, rest_catalog: RestCatalogServer) -> Orders:
    return Orders(tmp_path / "table", front.address, rest_catalog)


@pytest.mark.parametrize("fault", [None, *(one for one in Fault if one is not Fault.LATE)], ids=str)
def test_a_batch_is_committed_once_even_if_its_commit_fails(
    orders: Orders, front: CatalogFront, fault: Fault | None
) -> None:
    assert orders.table.last_batch("job") == NO_BATCH
    for batch in range(3):
        front.faults = [] if fault is None else [fault]
        file = orders.file(f"{batch}.parquet", id=[batch])
        orders.table.commit("job", batch, [file])
        orders.table.commit("job", batch, [file])
    with pytest.raises(UserError, match="Another run of job 'job' has committed batch 2"):
        orders.table.commit("job", 2, [orders.file("again.parquet", id=[2])])
    front.faults = [] if fault is None else [fault]
    orders.table.commit("job", 3, [])
    assert orders.open().last_batch("job") == 3
    assert orders.ids() == [0, 1, 2]


def test_a_delayed_commit_changes_nothing(orders: Orders, front: CatalogFront) -> None:
    """The job has retried and continued meanwhile."""
    for batch in range(0, 6, 2):
        front.faults = [Fault.LATE]
        orders.table.commit("job", batch, [] if batch == 2 else [orders.file(f"{batch}.parquet", id=[batch])])
        orders.table.commit("job", batch + 1, [orders.file(f"{batch + 1}.parquet", id=[batch + 1])])
        assert front.deliver_late() == [409]
        assert orders.table.last_batch("job") == batch + 1
    assert orders.ids() == [0, 1, 3, 4, 5]


def test_others_write_to_the_table_too(orders: Orders, front: CatalogFront) -> None:
    others = iter([7, 8])

    def other_client_commits() -> None:
        for number in others:
            orders.of_others().append(pa.table({"id": [number]}))
            return

    front.before_commit = other_client_commits
    orders.table.commit("job", 0, [orders.file("ours.parquet", id=[1])])
    assert front.commits == 3 and orders.ids() == [1, 7, 8]

    # Another run of the same job is quicker: its files count, and ours do not.
    def another_run() -> None:
        front.before_commit = lambda: None
        orders.open().commit("job", 1, [orders.file("theirs.parquet", id=[2])])

    front.before_commit = another_run
    with pytest.raises(UserError, match="Another run of job 'job' has committed batch 1"):
        orders.table.commit("job", 1, [orders.file("late.parquet", id=[2])])
    assert orders.ids() == [1, 2, 7, 8]


def test_columns_are_added_while_others_add_some(orders: Orders, front: CatalogFront) -> None:
    orders.table.commit("job", 0, [orders.file("narrow.parquet", id=[1])])

    def other_client_adds() -> None:
        front.before_commit = lambda: None
        with orders.of_others().update_schema() as update:
            update.union_by_name(pa.schema([("theirs", pa.int64())]))

    front.before_commit, front.faults = other_client_adds, [Fault.RESPONSE_LOST, Fault.RESPONSE_LOST]
    orders.table.shape(pa.schema([*SCHEMA, ("tags", pa.list_(pa.string()))]))
    assert set(orders.table.columns().names) == {"id", "theirs", "tags"}  # type: ignore[union-attr]
    orders.table.commit("job", 1, [orders.file("wide.parquet", id=[2], tags=[["a", "b"]])])
    assert orders.rows() == [
        {"id": 1, "theirs": None, "tags": None},
        {"id": 2, "theirs": None, "tags": ["a", "b"]},
    ]
    with pytest.raises(UserError, match="'id' of the table has type int64"):
        orders.table.shape(pa.schema([("id", pa.string())]))


def test_a_restarting_catalog_is_retried(orders: Orders, rest_catalog: RestCatalogServer) -> None:
    file = orders.file("0.parquet", id=[1])
    rest_catalog.kill()
    try:
        with pytest.raises(UserError, match=r"does not respond .*\. Check that it is running") as refused:
            orders.table.commit("job", 0, [file])
        assert "\n" not in str(refused.value)
    finally:
        rest_catalog.start()
    orders.table.commit("job", 0, [file])
    assert orders.ids() == [1]


def refusal(directory: Path, address: str) -> str:
    with pytest.raises(UserError) as refused:
        open_table(TableFormat.ICEBERG, directory, CatalogPlace(address)).last_batch("job")
    message = str(refused.value)
    assert "\n" not in message and len(message) < 600
    return message


def test_catalog_errors_are_one_line(
    tmp_path: Path, front: CatalogFront, rest_catalog: RestCatalogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (free_port,) = free_ports(1)
    assert "does not respond" in refusal(tmp_path, f"http://127.0.0.1:{free_port}")
    assert "Check its address" in refusal(tmp_path, f"{front.address}/nowhere")
    for address in ("https://ungeziefer@lake.example/", "https://lake.example/?token=ungeziefer"):
        assert "must not contain a password" in (message := refusal(tmp_path, address)) and "ungeziefer" not in message
    monkeypatch.setenv(TOKEN_SETTING, "wrong-ungeziefer")
    message = refusal(tmp_path, front.address)
    assert "denied access" in message and "PYICEBERG_CATALOG__ODRADEK__TOKEN" in message and "***" in message
    assert "ungeziefer" not in message
    monkeypatch.delenv(TOKEN_SETTING)
    assert "denied access" in refusal(tmp_path, front.address)

    front.credential = "clerk:samsa-in-bed"
    monkeypatch.setenv(CREDENTIAL_SETTING, "clerk:wrong-in-bed")
    message = refusal(tmp_path, front.address)
    assert "denied access" in message and "wrong-in-bed" not in message


def test_a_credential_is_exchanged_for_a_token(
    tmp_path: Path, front: CatalogFront, rest_catalog: RestCatalogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what PyIceberg's settings know by a name is found by it."""
    front.credential, front.token = "clerk:samsa-in-bed", "client-credentials-token:sub=clerk"
    monkeypatch.delenv(TOKEN_SETTING)
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", front.address)
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__CREDENTIAL", front.credential)
    orders = Orders(tmp_path / "table", "lake", rest_catalog)
    orders.table.commit("job", 0, [orders.file("0.parquet", id=[1])])
    assert orders.ids() == [1]
    kept = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert kept and not [file for file in kept if b"samsa" in file.read_bytes()]

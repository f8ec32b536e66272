"""Where a job's schemas come from, and what becomes of it when they do not."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.pipelines.jobs.schema_supply import WANTED_MAX, SchemaSupply
from odradek.pipelines.jobs.values import ValueKind
from odradek.text.errors import UserError
from tests.schema_registry import FakeRegistry, fake_registry
from tests.unit.pipelines.jobs.test_schema_values import LONG, descriptors

pytestmark = pytest.mark.needs("pyarrow")


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as running:
        running.responses = {"/schemas/ids/7": {"schema": json.dumps(LONG)}}
        yield running


def supply(directory: Path, kind: ValueKind = ValueKind.REGISTRY, **changes: Any) -> SchemaSupply:
    given: dict[str, Any] = {"registry": None, "files": (), "message": None, "stores_unknown": True}
    return SchemaSupply(kind, directory / "schemas", **given | changes)


def test_a_schema_is_fetched_once_and_stored(tmp_path: Path, registry: FakeRegistry) -> None:
    schemas = supply(tmp_path, registry=f"http://{registry.address}")
    schemas.fetch_missing(0, {7})
    kept = json.loads((tmp_path / "schemas" / "7.json").read_text())
    assert (kept["type"], json.loads(kept["text"])) == ("AVRO", LONG)
    assert "127.0.0.1" not in "".join(one.read_text() for one in (tmp_path / "schemas").iterdir())


def test_missing_schemas_are_stored_for_one_batch(tmp_path: Path, registry: FakeRegistry) -> None:
    schemas = supply(tmp_path, registry=f"http://{registry.address}")
    schemas.fetch_missing(3, {7, 8})
    assert schemas.values(3).unknown == {8: "not found in the schema registry"}
    # Meanwhile there is one, and the driver is another: the batch may have sent its dead letters.
    registry.responses["/schemas/ids/8"] = {"schema": json.dumps(LONG)}
    again = supply(tmp_path, registry=f"http://{registry.address}")
    assert again.values(3).unknown == {8: "not found in the schema registry"}
    assert again.values(4).unknown == {}
    again.fetch_missing(4, {8})
    assert again.values(4).unknown == {}
    # Where there are no dead letters nothing has been decided by it.
    without = supply(tmp_path / "without", registry=f"http://{registry.address}", stores_unknown=False)
    without.fetch_missing(3, {9})
    assert 9 in without.values(3).unknown
    registry.responses["/schemas/ids/9"] = {"schema": json.dumps(LONG)}
    assert supply(tmp_path / "without", files=(), registry=f"http://{registry.address}").values(3).unknown == {}


@pytest.mark.parametrize("trouble", [401, 500, 503, None])
def test_an_unavailable_registry_stops_the_job(tmp_path: Path, registry: FakeRegistry, trouble: int | None) -> None:
    registry.trouble = trouble
    address = registry.address if trouble else "127.0.0.1:1"
    schemas = supply(tmp_path, registry=f"http://ann:secret@{address}")
    with pytest.raises(
        UserError, match=r"schema 7 for batch 5: schema registry request failed: .*Nothing of this"
    ) as raised:
        schemas.fetch_missing(5, {7})
    assert "secret" not in str(raised.value)
    assert not (tmp_path / "schemas").exists() and schemas.values(5).unknown == {}


def test_too_many_unknown_schemas_are_an_error(tmp_path: Path, registry: FakeRegistry) -> None:
    with pytest.raises(UserError, match="Check that the records were written with a schema registry"):
        supply(tmp_path, registry=f"http://{registry.address}").fetch_missing(0, range(WANTED_MAX + 1))
    assert not registry.requests


def test_schema_files_take_precedence_and_cannot_change(tmp_path: Path, registry: FakeRegistry) -> None:
    file = tmp_path / "long.avsc"
    file.write_text(json.dumps(LONG))
    files = (f"9={file}",)
    only_files = supply(tmp_path, files=files)
    only_files.store_given()
    only_files.store_given()
    only_files.fetch_missing(0, {8})
    assert only_files.values(0).unknown == {8: "no --schema-file given for it"}
    file.write_text(json.dumps(LONG | {"name": "M"}))
    with pytest.raises(UserError, match="schema 9 differs from the one the job started with"):
        supply(tmp_path, files=files, registry=f"http://{registry.address}").store_given()


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        (ValueKind.REGISTRY, {}, "requires --schema-registry URL"),
        (
            ValueKind.REGISTRY,
            {"registry": "ann:secret@host"},
            "--schema-registry: not a valid URL. Write http://HOST:PORT",
        ),
        (ValueKind.REGISTRY, {"files": ("x.avsc",)}, "write ID=FILE"),
        (ValueKind.REGISTRY, {"files": ("3000000000=x.avsc",)}, "write ID=FILE"),
        (ValueKind.AVRO, {}, "requires one --schema-file FILE"),
        (ValueKind.AVRO, {"files": ("nowhere.avsc",)}, "nowhere.avsc': No such file"),
        (ValueKind.AVRO, {"files": ("orders.desc",)}, "the schema type is protobuf, not avro"),
        (ValueKind.AVRO, {"files": ("string.avsc",)}, "its Avro schema is not a record"),
        (ValueKind.AVRO, {"files": ("bomb.avsc",)}, "its Avro schema is endless"),
        (ValueKind.AVRO, {"files": ("large",)}, "The maximum is"),
        (ValueKind.PROTOBUF, {"files": ("order.proto",)}, "is Protobuf source. Compile it with `protoc"),
        (ValueKind.PROTOBUF, {"files": ("noise",)}, "is neither an Avro schema in JSON nor a Protobuf"),
        (ValueKind.PROTOBUF, {"files": ("orders.desc",), "message": "shop.Bill"}, "Choose one of shop.Order"),
        (ValueKind.AVRO, {"files": ("long.avsc",), "message": "shop.Bill"}, "--message requires"),
        (ValueKind.JSON, {"files": ("long.avsc",)}, "--schema-file requires"),
    ],
)
def test_invalid_schema_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: ValueKind, changes: dict[str, Any], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    never_ends = {"type": "record", "name": "A", "fields": [{"name": "a", "type": "A"}]}
    for name, form in (("long", LONG), ("string", "string"), ("bomb", never_ends)):
        Path(f"{name}.avsc").write_text(json.dumps(form))
    Path("orders.desc").write_bytes(descriptors().SerializeToString())
    Path("order.proto").write_text('syntax = "proto3";\nmessage Order { int64 id = 1; }\n')
    Path("noise").write_bytes(b"\xff" * 50)
    Path("large").write_bytes(b" " * (4 * 1024 * 1024 + 1))
    with pytest.raises(UserError) as raised:
        supply(tmp_path, kind, **changes)
    assert said in str(raised.value) and "secret" not in str(raised.value)

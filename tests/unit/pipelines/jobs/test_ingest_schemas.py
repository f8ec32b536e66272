"""`ingest` of framed records, driver and tasks in one process: what a registry says, does not say, and says later."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf import descriptor_pb2
from pyspark import cloudpickle

from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.pipelines.jobs import ingest as ingest_module
from odradek.pipelines.jobs.ingest import IngestJob, IngestSettings
from odradek.pipelines.jobs.progress import Progress
from odradek.pipelines.jobs.state import JobState
from odradek.pipelines.jobs.tables.parquet import ParquetTable
from odradek.pipelines.jobs.tables.table import TableFormat
from odradek.pipelines.jobs.values import ValueKind
from odradek.pipelines.spark.topic_offsets import Positions
from odradek.text.errors import UserError
from tests.schema_registry import FakeRegistry, fake_registry

pytestmark = pytest.mark.needs("pyarrow")

PARTITION = TopicPartition("orders", 0)
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
NOTED = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": ["null", "string"]}]}
BOMB = {"type": "array", "items": "null"}


class Crash(BaseException):
    pass


class Records:
    """A topic of one partition, and a Spark that runs tasks where it is called."""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []

    def format(self, name: str) -> "Records":
        return self

    def options(self, **options: str) -> "Records":
        if "startingOffsets" in options:
            (self._start,) = json.loads(options["startingOffsets"])["orders"].values()
            (self._end,) = json.loads(options["endingOffsets"])["orders"].values()
        return self

    def load(self) -> "Records":
        return self

    def mapInArrow(self, task: Any, schema: str) -> "Records":
        offsets = range(self._start, self._end)
        columns = {
            "key": pa.nulls(len(offsets), pa.binary()),
            "value": pa.array([self.values[one] for one in offsets], pa.binary()),
            "partition": pa.array([0] * len(offsets), pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pa.array([0] * len(offsets), pa.timestamp("us", "UTC")),
        }
        # As it travels to a task.
        travelled = cloudpickle.loads(cloudpickle.dumps(task))
        batches = travelled(iter([pa.RecordBatch.from_pydict(columns)]))
        self._reports = [one for batch in batches for one in batch.to_pylist()]
        return self

    def collect(self) -> list[Any]:
        return [type("Row", (), one) for one in self._reports]

    @property
    def read(self) -> "Records":
        return self


class Range:
    """In place of the topic's offsets."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def layout(self) -> None:
        return

    def first(self, where: str) -> Positions:
        return self._at(0)

    def last(self, where: str | None) -> dict[TopicPartition, int]:
        return {PARTITION: len(self._records.values)}

    def next(self, reached: Positions) -> Positions:
        return self._at(reached.find(PARTITION) or 0)

    def check_same(self, reached: Positions) -> None:
        return

    def _at(self, offset: int) -> Positions:
        found = Positions()
        found.put(PARTITION, "id", offset)
        return found


class Job:
    def __init__(self, directory: Path, records: Records, registry: FakeRegistry) -> None:
        self.table = directory / "table"
        self.records = records
        self.registry = registry
        self.letters: list[tuple[int, list[str]]] = []

    def run(self, dead_letters: str | None = "dead") -> Progress:
        settings = IngestSettings(
            bootstrap="",
            topic="orders",
            table=self.table,
            format=TableFormat.PARQUET,
            name="orders",
            values=ValueKind.REGISTRY,
            registry=f"http://ann:secret@{self.registry.address}",
            dead_letters=dead_letters,
        )
        assert "secret" not in repr(settings)
        state = JobState(self.table, "orders")
        with state.hold():
            return IngestJob(Cluster([]), settings, state).run(cast(Any, self.records))

    def rows(self) -> list[dict[str, Any]]:
        tables = [pq.read_table(one) for one in ParquetTable(self.table).files()]
        return cast(list[dict[str, Any]], pa.concat_tables(tables, promote_options="default").to_pylist())


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    records = Records()
    monkeypatch.setattr(ingest_module, "TopicRange", lambda *arguments, **options: Range(records))
    with fake_registry() as registry:
        for schema_id, schema in ((1, ORDER), (2, NOTED), (3, BOMB)):
            registry.responses[f"/schemas/ids/{schema_id}"] = {"schema": json.dumps(schema)}
        made = Job(tmp_path, records, registry)

        def send(spark: object, files: list[str], options: object, *, sink: Any, origin: object) -> None:
            staged = [one for file in files for one in pq.read_table(file).to_pylist()]
            made.letters.append((sink.batch, [one["error"] for one in staged]))

        monkeypatch.setattr(ingest_module, "send_letters", send)
        yield made


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + payload


def test_ingest_decodes_with_registry_schemas_and_adds_columns(job: Job) -> None:
    file = descriptor_pb2.FileDescriptorProto(syntax="proto3")
    file.message_type.add(name="Order").field.add(name="id", number=1, type=5, label=1)
    text = base64.b64encode(file.SerializeToString()).decode()
    for form in ("", "?format=serialized"):
        job.registry.responses[f"/schemas/ids/4{form}"] = {"schema": text, "schemaType": "PROTOBUF"}
    job.records.values = [framed(1, b"\x02"), None, framed(4, b"\x00\x08\x05")]
    progress = job.run()
    assert (progress.batches, progress.rows, progress.dead_letters, progress.lag) == (1, 3, 0, 0)
    job.records.values += [framed(2, b"\x04\x02\x06abc"), framed(1, b"\x06")]
    assert job.run().rows == 2
    assert [(row["_offset"], row["id"], row["note"]) for row in job.rows()] == [
        (0, 1, None),
        (1, None, None),
        (2, 5, None),
        (3, 2, "abc"),
        (4, 3, None),
    ]
    paths = [path for path, _ in job.registry.requests]
    assert len(paths) == len(set(paths)) == 4
    stored = [one.read_bytes() for one in job.table.rglob("*") if one.is_file()]
    assert not any(b"secret" in one or job.registry.address.encode() in one for one in stored)


def test_a_repeated_batch_has_the_same_dead_letters(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.records.values = [
        framed(9, b"\x02"),
        framed(1, b"\x02"),
        framed(3, b"\x02\x00"),
        framed(2, b"\x04\x02\x06ab"),
        b"{}",
    ]
    with monkeypatch.context() as planted, pytest.raises(Crash):
        planted.setattr(ParquetTable, "commit", raise_crash)
        job.run()
    # When the driver is back, the registry has what it had not when the letters were sent.
    job.registry.responses["/schemas/ids/9"] = {"schema": json.dumps(ORDER)}
    assert job.run().dead_letters == 4
    first, again = job.letters
    assert (
        first
        == again
        == (
            0,
            [
                "schema 9: not found in the schema registry",
                "schema 3: its Avro schema has an array whose items take almost no bytes",
                "schema 2: does not match its Avro schema: EOFError Expected 3 bytes, read 2",
                "does not start with a schema ID",
            ],
        )
    )
    job.records.values.append(framed(9, b"\x06"))
    assert job.run().rows == 1
    assert [row["id"] for row in job.rows()] == [1, 3]


def test_an_unavailable_registry_creates_no_dead_letters(job: Job) -> None:
    job.records.values = [framed(1, b"\x02"), framed(2, b"\x04\x00")]
    job.registry.trouble = 503
    with pytest.raises(
        UserError, match=r"schema 1 for batch 0: schema registry request failed: 127\.0\.0\.1 returned HTTP 503"
    ):
        job.run()
    assert not job.letters and not list(job.table.glob("_spark_metadata/*"))
    job.registry.trouble = None
    assert job.run().rows == 2 and not job.letters


def test_without_dead_letters_a_schema_may_be_registered_later(job: Job) -> None:
    job.records.values = [framed(9, b"\x02")]
    with pytest.raises(
        UserError, match=r"orders-0 \(schema 9: not found in the schema registry\)\. Nothing of this batch"
    ):
        job.run(dead_letters=None)
    job.registry.responses["/schemas/ids/9"] = {"schema": json.dumps(ORDER)}
    assert job.run(dead_letters=None).rows == 1


def test_a_job_cannot_change_its_value_format(job: Job) -> None:
    job.run()
    state = JobState(job.table, "orders")
    settings = IngestSettings(bootstrap="", topic="orders", table=job.table, format=TableFormat.PARQUET, name="orders")
    with state.hold(), pytest.raises(UserError, match="its values is 'registry', not 'json'"):
        IngestJob(Cluster([]), settings, state)


def raise_crash(*arguments: Any) -> None:
    raise Crash

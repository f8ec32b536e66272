"""`odradek job` with a real Spark and a real broker: each record once, and what is wrong is said."""

import base64
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, Row, SparkSession

from odradek.base.ids import TopicPartition as PartitionName
from odradek.client.address import parse_bootstrap
from odradek.client.admin import LATEST, Admin
from odradek.client.cluster import Cluster
from odradek.client.partitioner import partition_of_key
from odradek.pipelines.jobs import ingest as ingest_module
from odradek.pipelines.jobs import load as load_module
from odradek.pipelines.jobs.audit import TableAudit, TableAuditSettings
from odradek.pipelines.jobs.audit_topics import TopicAudit
from odradek.pipelines.jobs.ingest import IngestJob, IngestSettings
from odradek.pipelines.jobs.load import LoadJob, LoadSettings
from odradek.pipelines.jobs.pipeline.definition import parse_pipeline, read_pipeline
from odradek.pipelines.jobs.pipeline.functions import find_function
from odradek.pipelines.jobs.pipeline.queries import PipelineQueries
from odradek.pipelines.jobs.pipeline.run import check_topics, run_pipeline
from odradek.pipelines.jobs.pipeline.status import PipelineStatus
from odradek.pipelines.jobs.progress import Progress
from odradek.pipelines.jobs.rewrite.audit import RewriteAudit, RewriteFindings
from odradek.pipelines.jobs.rewrite.erased_keys import ErasedKeys
from odradek.pipelines.jobs.rewrite.job import RewriteJob, RewriteSettings
from odradek.pipelines.jobs.rewrite.rules import Keyless, Rules
from odradek.pipelines.jobs.session import spark_session
from odradek.pipelines.jobs.skew.job import SkewJob, SkewSettings
from odradek.pipelines.jobs.state import JobState
from odradek.pipelines.jobs.tables.delta import DeltaLakeTable
from odradek.pipelines.jobs.tables.table import TableFormat, open_table
from odradek.pipelines.jobs.values import ValueKind
from odradek.text.errors import UserError
from tests.node_process import NodeProcess
from tests.patience import Patience
from tests.schema_registry import FakeRegistry, fake_registry
from tests.spark.schema_orders import AVRO_ORDER, SCHEMA, Orders

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


# Of the processes that plan streams and commit them, the next takes its time if there is such a file.
PYTHON = """#!/bin/sh
case "$*" in *streaming*) if rm {slowness} 2>/dev/null; then sleep 12; fi;; esac
exec {python} "$@"
"""


@pytest.fixture(scope="module")
def slowness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("slowness") / "once"


@pytest.fixture(scope="module")
def python(slowness: Path) -> Iterator[None]:
    """What Spark starts."""
    script = slowness.with_name("python")
    script.write_text(PYTHON.format(slowness=slowness, python=sys.executable))
    script.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        # For tasks, and for what Spark starts beside its driver.
        for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
            patch.setenv(name, str(script))
        yield


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory, java: None, python: None) -> Iterator[SparkSession]:
    # In a run of half a minute compiling well would cost more than it saves.
    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.sql.adaptive.enabled": "false",
    }
    log_file = tmp_path_factory.mktemp("spark") / "spark.log"
    with spark_session("jobs-test", master="local[2]", log_file=log_file, conf=conf, is_short=True) as session:
        yield session


class Topic:
    """A topic of JSON records."""

    def __init__(self, broker: NodeProcess, cluster: Cluster, name: str, partitions: int = 2) -> None:
        Admin(cluster).create_topic(name, partitions=partitions, replication_factor=1)
        self.name = name
        self._bootstrap = broker.bootstrap

    def put(self, *values: Any, partition: int = 0, headers: list[tuple[str, bytes]] | None = None) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 5})
        for value in values:
            raw = value if isinstance(value, bytes | None) else json.dumps(value).encode()
            producer.produce(self.name, raw, b"k", partition=partition, headers=headers)
        assert producer.flush(30) == 0

    def records(self, partition: int = 0) -> list[Any]:
        """All that are committed in a partition, once nothing is undecided there."""
        settings = {"group.id": "test", "enable.auto.commit": False, "enable.partition.eof": True}
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "isolation.level": "read_committed", **settings})
        consumer.assign([TopicPartition(self.name, partition, 0)])
        end = self._end(partition)
        found: list[Any] = []
        patience = Patience(60)
        try:
            while not patience.is_over():
                message = consumer.poll(0.5)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    found.append(message)
                elif error.code() == KafkaError._PARTITION_EOF and message.offset() >= end:
                    return found
            pytest.fail(f"the end of {self.name} was not reached")
        finally:
            consumer.close()

    def _end(self, partition: int) -> int:
        with Cluster(parse_bootstrap(self._bootstrap)) as cluster:
            name = PartitionName(self.name, partition)
            return Admin(cluster).offsets({name: LATEST})[name]


class Ingest:
    """The same command, again and again."""

    def __init__(self, spark: SparkSession, broker: NodeProcess, cluster: Cluster, **settings: Any) -> None:
        self._spark = spark
        self._cluster = cluster
        self.settings = IngestSettings(bootstrap=broker.bootstrap, **{"name": settings["topic"], **settings})

    def run(self) -> Progress:
        state = JobState(self.settings.table, self.settings.name)
        with state.hold():
            return IngestJob(self._cluster, self.settings, state).run(self._spark)

    def rows(self) -> list[Row]:
        found = self._table().collect()
        return sorted(found, key=lambda row: (row["_partition"], row["_offset"]))

    def offsets(self) -> list[tuple[int, int]]:
        return [(row["_partition"], row["_offset"]) for row in self.rows()]

    def _table(self) -> DataFrame:
        if self.settings.format is TableFormat.PARQUET:
            return self._spark.read.option("mergeSchema", "true").parquet(str(self.settings.table))
        files = open_table(self.settings.format, self.settings.table).files()
        return self._spark.read.option("mergeSchema", "true").parquet(*files)


class Crash(BaseException):
    pass


@pytest.mark.parametrize("format", list(TableFormat))
def test_ingest_is_exactly_once_whenever_the_driver_dies(
    spark: SparkSession,
    broker: NodeProcess,
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    format: TableFormat,
) -> None:
    orders = Topic(broker, cluster, f"orders-{format}")
    letters = Topic(broker, cluster, f"letters-{format}", partitions=1)
    table = tmp_path / "table"
    job = Ingest(
        spark, broker, cluster, topic=orders.name, table=table, format=format, dead_letters=letters.name, group="seen"
    )
    orders.put(*({"id": number, "name": f"n{number}"} for number in range(300)))
    orders.put({"id": 1.5}, None, partition=1)

    # After the files are written, the table is committed or not: in both cases the batch was not reported as done.
    commit = type(ingest_module.open_table(format, table)).commit

    def crash_before(self: Any, *arguments: Any) -> None:
        raise Crash

    def crash_after(self: Any, *arguments: Any) -> None:
        commit(self, *arguments)
        raise Crash

    for crash in (crash_before, crash_after):
        with monkeypatch.context() as planted, pytest.raises(Crash):
            planted.setattr(type(ingest_module.open_table(format, table)), "commit", crash)
            job.run()

    assert job.run().batches == 0, "the batch counted though its driver had died"
    rows = job.rows()
    assert [row.id for row in rows] == [*range(300), 1.5, None]
    assert [row.name for row in rows][:2] == ["n0", "n1"]
    data_files = list(table.glob("*.parquet"))
    assert len(data_files) >= 2

    # A new field, one that does not fit, one that is no JSON; batches smaller than what is there. The driver dies when
    # the dead letters are sent, and their batch does not count yet.
    orders.put({"id": 300, "extra": True}, {"id": "x"}, b"{", headers=[("h", b"1")])
    job.settings = replace(job.settings, batch_records=2)
    with monkeypatch.context() as planted, pytest.raises(Crash):
        planted.setattr(type(ingest_module.open_table(format, table)), "commit", crash_before)
        job.run()
    progress = job.run()
    assert (progress.rows, progress.dead_letters, progress.lag) == (1, 2, 0)
    assert progress.batches == 2
    rows = job.rows()
    assert rows[300].extra is True and rows[0].extra is None
    assert len(rows) == 303
    dead = letters.records()
    assert [record.value() for record in dead] == [b'{"id": "x"}', b"{"]
    headers = dict(dead[1].headers())
    assert headers["h"] == b"1"
    assert headers["odradek.origin.topic"].decode() == orders.name
    assert (headers["odradek.origin.partition"], headers["odradek.origin.offset"]) == (b"0", b"302")
    assert b"invalid JSON" in headers["odradek.error"]

    audit = TableAuditSettings(
        bootstrap=broker.bootstrap, topic=orders.name, table=table, name=orders.name, dead_letters=letters.name
    )
    found = TableAudit(cluster, audit).run(spark)
    assert found.is_exact, found.to_json()
    assert [(one.records, one.rows, one.dead_letters) for one in found.partitions] == [(303, 301, 2), (2, 2, 0)]
    if format is TableFormat.DELTA:
        damage(table)
        found = TableAudit(cluster, replace(audit, dead_letters=None)).run(spark)
        assert list(found.sentences()) == [
            f"Duplicated in {orders.name}-0: offsets 5-6",
            f"Missing in {orders.name}-0: offsets 7, 301-302",
            f"Different in {orders.name}-0: offsets 9",
        ]
        assert [one.is_exact for one in found.partitions] == [False, True]


def damage(table: Path) -> None:
    delta = DeltaTable(str(table))
    delta.delete("_partition = 0 AND _offset = 7")
    delta.update(predicate="_partition = 0 AND _offset = 9", updates={"name": "'changed'"})
    rows = delta.to_pyarrow_table(filters=[("_partition", "=", 0), ("_offset", "in", [5, 6])])
    write_deltalake(str(table), rows, mode="append")


@pytest.mark.tier("proof")
def test_records_by_a_registrys_schemas(
    spark: SparkSession, broker: NodeProcess, cluster: Cluster, tmp_path: Path
) -> None:
    framed, letters = Topic(broker, cluster, "framed"), Topic(broker, cluster, "framed-dead", partitions=1)
    order = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
    # The id of a schema, and a number; of one there is no schema.
    framed.put(b"\0\0\0\0\1\x02", None, b"\0\0\0\0\2\x02", b"\0\0\0\0\1\x04")
    with fake_registry() as registry:
        registry.responses = {"/schemas/ids/1": {"schema": json.dumps(order)}}
        settings = {"topic": "framed", "table": tmp_path / "table", "dead_letters": "framed-dead"}
        address = f"http://{registry.address}"
        job = Ingest(spark, broker, cluster, values=ValueKind.REGISTRY, registry=address, **settings)
        job.run()
    assert [row.id for row in job.rows()] == [1, None, 2]
    (dead,) = letters.records()
    assert dict(dead.headers())["odradek.error"] == b"schema 2: not found in the schema registry"
    # By the schemas that the job has kept.
    audit = TableAuditSettings(bootstrap=broker.bootstrap, name="framed", **settings)
    found = TableAudit(cluster, audit).run(spark)
    assert found.is_exact, found.to_json()


@pytest.mark.tier("proof")
def test_audit_compares_two_topics(spark: SparkSession, broker: NodeProcess, cluster: Cluster) -> None:
    source, copy = Topic(broker, cluster, "source"), Topic(broker, cluster, "copy", partitions=3)
    source.put(*({"id": number} for number in range(100)))
    copy.put(*({"id": number} for number in range(50)), partition=1)
    copy.put(*({"id": number} for number in range(50, 100)), partition=2)
    assert TopicAudit(cluster, broker.bootstrap, "source", "copy", "beginning", None).run(spark).is_exact

    copy.put({"id": 7}, {"id": 1000})
    source.put({"id": 8})
    found = TopicAudit(cluster, broker.bootstrap, "source", "copy", "beginning", None).run(spark)
    assert (found.missing, found.double) == (1, 2)
    assert list(found.sentences()) == [
        "source-0 offset 7: 1 in source, 2 in copy",
        "source-0 offset 8: 2 in source, 1 in copy",
        "the record at copy-0 offset 1: 0 in source, 1 in copy",
    ]

    skew = SkewJob(cluster, SkewSettings(bootstrap=broker.bootstrap, topic="source")).run(spark)
    assert (skew.summary.records, skew.keys[0].key, skew.keys[0].records) == (101, b"k", 101)


class Load:
    def __init__(self, spark: SparkSession, broker: NodeProcess, cluster: Cluster, **settings: Any) -> None:
        self._spark = spark
        self._cluster = cluster
        self._settings = LoadSettings(bootstrap=broker.bootstrap, **settings)

    def run(self) -> Progress:
        state = JobState(self._settings.state, self._settings.name)
        with state.hold():
            return LoadJob(self._cluster, self._settings, state).run(self._spark)


@pytest.mark.tier("proof")
def test_load_is_exactly_once(
    spark: SparkSession, broker: NodeProcess, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic into a table and back; JSON as it is, in batches, with a driver that dies after one of them."""
    first, again = Topic(broker, cluster, "first", partitions=1), Topic(broker, cluster, "again", partitions=1)
    first.put(*({"id": number, "name": f"n{number}"} for number in range(50)))
    Ingest(spark, broker, cluster, topic="first", table=tmp_path / "table").run()
    load = Load(
        spark,
        broker,
        cluster,
        source=tmp_path / "table",
        topic="again",
        state=tmp_path / "state",
        name="again",
        key="id",
    )
    assert (load.run().rows, load.run().rows) == (50, 0)
    assert [(one.key(), json.loads(one.value())) for one in again.records()] == [
        (str(number).encode(), {"id": number, "name": f"n{number}"}) for number in range(50)
    ]

    lines = tmp_path / "lines"
    lines.mkdir()
    for number in range(3):
        (lines / f"{number}.jsonl").write_text(f'{{"n":  {number}}}\n\n{{"n": "x"}}\n')
    loaded = Topic(broker, cluster, "lines", partitions=1)
    load = Load(
        spark,
        broker,
        cluster,
        source=lines,
        topic="lines",
        state=tmp_path / "state",
        name="lines",
        key="n",
        batch_bytes=1,
    )
    with monkeypatch.context() as planted, pytest.raises(Crash):
        planted.setattr(load_module, "write_atomically", raise_crash)
        load.run()
    assert load.run().batches == 3
    audited = [one.value() for one in loaded.records()]
    assert audited == [text for number in range(3) for text in (b'{"n":  %d}' % number, b'{"n": "x"}')]


@pytest.mark.tier("proof")
def test_a_pipeline_survives_a_slow_start_of_python(
    spark: SparkSession, broker: NodeProcess, cluster: Cluster, tmp_path: Path, slowness: Path
) -> None:
    """Spark waits for ten seconds."""
    slow, copied = (Topic(broker, cluster, name, partitions=1) for name in ("slow", "slow-copied"))
    slow.put(1, 2, 3)
    form = {
        "name": "slow",
        "bootstrap": broker.bootstrap,
        "sources": {"numbers": {"topic": slow.name}},
        "transformations": {"bare": "SELECT value FROM numbers"},
        "sinks": {"copy": {"from": "bare", "topic": copied.name}},
    }
    pipeline = parse_pipeline(form, directory=tmp_path)
    pipeline.state.mkdir(parents=True)
    slowness.touch()
    assert run_pipeline(spark, pipeline).state == "done"
    assert not slowness.exists(), "no process was slow"
    assert [one.value() for one in copied.records()] == [b"1", b"2", b"3"]


PIPELINE = """
name: shop
bootstrap: {bootstrap}
sources:
  sales: {{topic: sales, schema: "id bigint, product string, amount double", max_records: 30}}
transformations:
  large: SELECT id, product, amount, _offset FROM sales WHERE amount >= 10
  marked: {{python: "marks.py:mark", from: large}}
  totals: SELECT product, count(*) AS sales, sum(amount) AS amount FROM sales GROUP BY product
sinks:
  large_table: {{from: marked, table: large}}
  totals_topic: {{from: totals, topic: totals, key: product, mode: update}}
dead_letters: sales-dead
"""
# A function of the file travels to the tasks.
MARKS = """
from pyspark.sql import functions as F

def shout(product):
    return product.upper()

def mark(large):
    return large.withColumn("mark", F.udf(shout)("product"))

def fail(large):
    return large.count()
"""


def test_a_pipeline_writes_each_row_once(
    spark: SparkSession, broker: NodeProcess, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sales, totals, dead = (Topic(broker, cluster, name, partitions=1) for name in ("sales", "totals", "sales-dead"))
    file = tmp_path / "shop.yaml"
    file.write_text(PIPELINE.format(bootstrap=broker.bootstrap))
    (tmp_path / "marks.py").write_text(MARKS)
    pipeline = read_pipeline(file)
    pipeline.state.mkdir(parents=True)
    check_topics(cluster, pipeline)
    assert PipelineQueries(spark, pipeline).check()["totals"] == "struct<product:string,sales:bigint,amount:double>"
    wrong = replace(pipeline, transformations={"large": "SELECT nothing FROM sales"})
    with pytest.raises(UserError, match=r"transformations\.large: .*nothing"):
        PipelineQueries(spark, wrong).check()
    wrong = replace(pipeline, transformations={"marked": find_function("marks:fail", ("sales",), tmp_path)})
    with pytest.raises(UserError, match=r"transformations\.marked: .*streaming"):
        PipelineQueries(spark, wrong).check()

    def sold() -> list[int]:
        files = open_table(TableFormat.DELTA, tmp_path / "large").files()
        rows = spark.read.parquet(*files).collect()
        assert all(row.mark == row.product.upper() for row in rows)
        return sorted(row.id for row in rows)

    sales.put(*({"id": number, "product": f"p{number % 3}", "amount": number} for number in range(40)), b"{")
    status = run_pipeline(spark, pipeline)
    assert status.state == "done"
    assert {one.name: (one.records, one.dead_letters, one.lag) for one in status.queries} == {
        "large_table": (41, 0, 0),
        "totals_topic": (41, 0, 0),
        "sales.dead_letters": (41, 1, 0),
    }
    assert sold() == list(range(10, 40))

    # The batch counts, and Spark does not know it yet when its driver dies.
    sales.put({"id": 40, "product": "p0", "amount": 40})
    with monkeypatch.context() as planted:
        planted.setattr(DeltaLakeTable, "commit", committing_then_failing(DeltaLakeTable.commit))
        with pytest.raises(UserError, match="Sink large_table: planted"):
            run_pipeline(spark, pipeline)
    stored = PipelineStatus.read(pipeline.state)
    assert stored is not None and stored.state == "failed"
    assert run_pipeline(spark, pipeline).state == "done"
    assert sold() == list(range(10, 41))
    last = {one.key(): json.loads(one.value()) for one in totals.records()}
    assert sum(one["sales"] for one in last.values()) == 41
    assert sum(one["amount"] for one in last.values()) == sum(range(41))
    assert [one.value() for one in dead.records()] == [b"{"]


def rows_of(table: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    return rows


@pytest.mark.tier("proof")
def test_a_pipeline_of_avro_and_protobuf_by_files(
    spark: SparkSession, broker: NodeProcess, cluster: Cluster, tmp_path: Path
) -> None:
    avro, protobuf = (Topic(broker, cluster, name, partitions=1) for name in ("avro", "protobuf"))
    orders = Orders(tmp_path)
    form = {
        "name": "by-files",
        "bootstrap": broker.bootstrap,
        "sources": {
            "avro": {"topic": "avro", "schema": SCHEMA, "values": "avro", "schema_file": "order.avsc"},
            "protobuf": {
                "topic": "protobuf",
                "schema": SCHEMA,
                "values": "protobuf",
                "schema_file": "order.desc",
                "message": "shop.Order",
            },
        },
        "transformations": {
            "both": "SELECT id, price, at, tags FROM avro UNION ALL SELECT id, price, at, tags FROM protobuf"
        },
        "sinks": {"orders": {"from": "both", "table": "orders"}},
    }
    pipeline = parse_pipeline(form, directory=tmp_path)
    pipeline.state.mkdir(parents=True)
    assert PipelineQueries(spark, pipeline).check() == {
        "both": "struct<id:bigint,price:decimal(8,2),at:timestamp,tags:array<string>>"
    }
    avro.put(*map(orders.avro, range(5)))
    protobuf.put(*map(orders.protobuf, range(5, 10)))
    assert run_pipeline(spark, pipeline).state == "done"
    # Without a topic for them such records stop it, and nothing of their batch counts.
    protobuf.put(orders.protobuf(10), b"\xff")
    with pytest.raises(UserError, match="The record at offset 6 of partition 0 does not fit the schema: does not"):
        run_pipeline(spark, pipeline)
    assert sorted(rows_of(tmp_path / "orders"), key=lambda row: row["id"]) == [orders.row(n) for n in range(10)]


@pytest.mark.tier("proof")
def test_a_pipeline_with_a_schema_registry(
    spark: SparkSession, broker: NodeProcess, cluster: Cluster, tmp_path: Path
) -> None:
    named, dead = (Topic(broker, cluster, name, partitions=1) for name in ("named", "named-dead"))
    orders = Orders(tmp_path)

    def framed(schema_id: int, payload: bytes) -> bytes:
        return b"\0" + schema_id.to_bytes(4, "big") + payload

    def run(registry: FakeRegistry) -> PipelineStatus:
        source = {
            "topic": "named",
            "schema": SCHEMA,
            "values": "registry",
            "schema_registry": f"http://me:ungeziefer@{registry.address}",
            "schema_file": ["7=order.avsc"],
        }
        form = {
            "name": "by-registry",
            "bootstrap": broker.bootstrap,
            "sources": {"named": source},
            "sinks": {"orders": {"from": "named", "table": "orders"}},
            "dead_letters": "named-dead",
        }
        pipeline = parse_pipeline(form, directory=tmp_path)
        pipeline.state.mkdir(parents=True, exist_ok=True)
        return run_pipeline(spark, pipeline)

    def rows() -> list[dict[str, Any]]:
        found = sorted(rows_of(tmp_path / "orders"), key=lambda row: int(row["_offset"]))
        return [{name: value for name, value in row.items() if not name.startswith("_")} for row in found]

    # The second message of its schema: a count, and its place, as zigzag numbers.
    second = b"\x02\x02"
    named.put(framed(1, orders.avro(0)), framed(2, second + orders.protobuf(1)), framed(7, orders.avro(2)), None)
    named.put(b"{}", framed(1, orders.avro(3)[:-1]), framed(2, second + b"\xff"))
    nothing = dict.fromkeys(orders.row(0))
    with fake_registry() as registry:
        registry.responses = {
            "/schemas/ids/1": {"schema": json.dumps(AVRO_ORDER)},
            "/schemas/ids/2": {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3";'},
            "/schemas/ids/2?format=serialized": {
                "schemaType": "PROTOBUF",
                "schema": base64.b64encode(orders.file.SerializeToString()).decode(),
            },
        }
        assert {one.name: one.dead_letters for one in run(registry).queries} == {"orders": 0, "named.dead_letters": 3}
        assert rows() == [*map(orders.row, range(3)), nothing]
        reasons = [dict(one.headers())["odradek.error"] for one in dead.records()]
        assert [reason[:34] for reason in reasons] == [
            b"does not start with a schema ID",
            b"schema 1: does not match its Avro ",
            b"schema 2: does not match its Proto",
        ]

        # A producer writes before the registry has the schema: the pipeline stops, and resumes when it has.
        named.put(framed(1, orders.avro(4)), framed(9, orders.avro(5)))
        with pytest.raises(UserError, match="schema 9 of a record: not found in the schema registry") as refused:
            run(registry)
        assert "ungeziefer" not in str(refused.value)
        registry.responses["/schemas/ids/9"] = registry.responses["/schemas/ids/1"]
        assert run(registry).state == "done"
        assert rows() == [*map(orders.row, range(3)), nothing, orders.row(4), orders.row(5)]
        assert len(dead.records()) == 3


@pytest.mark.tier("proof")
def test_a_topic_is_rewritten_with_other_keys_without_duplicates_and_without_erased_keys(
    spark: SparkSession, broker: NodeProcess, cluster: Cluster, tmp_path: Path
) -> None:
    Topic(broker, cluster, "visits")
    copied = Topic(broker, cluster, "visits-by-shop", partitions=3)
    put_visits(broker, range(60))
    erased = ErasedKeys.of([b"visitor-3"])
    rules = Rules(key_field="shop", keyless=Keyless.DROP, window_ms=1_000, same_by="value", erased=erased).check()
    settings = RewriteSettings(
        bootstrap=broker.bootstrap,
        source="visits",
        target=copied.name,
        state=tmp_path,
        name="by-shop",
        rules=rules,
        # So that most duplicates are in another batch than what they repeat.
        batch_records=50,
    )
    state = JobState(tmp_path, "by-shop")

    def rewrite() -> Progress:
        with state.hold():
            return RewriteJob(cluster, settings, state).run(spark)

    def audit() -> RewriteFindings:
        return RewriteAudit(cluster, broker.bootstrap, "visits", copied.name, state, "by-shop", erased).run(spark)

    # 46 visits of 60 are of a shop and not the erased visitor's. Each counts twice: the second of three came at once.
    progress = rewrite()
    assert progress.batches == 4 and progress.lag == 0
    assert (progress.rows, progress.left_out) == (92, 88)
    found = audit()
    assert found.is_exact, list(found.sentences())
    assert found.records.right.records == 92
    written = [copied.records(partition=partition) for partition in range(3)]
    for shop in range(5):
        key = b"%d" % shop
        of_shop = [one for one in written[partition_of_key(key, 3)] if one.key() == key]
        numbers = [json.loads(one.value())["n"] for one in of_shop]
        kept = [n for n in range(60) if n % 6 == shop and n % 10 != 3]
        assert sorted(numbers) == sorted(kept * 2)
        for source in range(2):
            of_source = [n for n in numbers if n % 2 == source]
            assert of_source == [n for n in kept if n % 2 == source] * 2

    assert rewrite().batches == 0
    put_visits(broker, range(60, 70))
    assert rewrite().rows == 16
    assert audit().is_exact


def put_visits(broker: NodeProcess, numbers: range) -> None:
    """Each twice at once, and once more when all others were there."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    first_ms = time.time_ns() // 1_000_000 - 200_000
    for again_ms in (0, 1, 100_000):
        for number in numbers:
            shop = number % 6
            value = json.dumps({"n": number, **({"shop": shop} if shop < 5 else {})}).encode()
            time_ms = first_ms + number + again_ms
            producer.produce("visits", value, b"visitor-%d" % (number % 10), partition=number % 2, timestamp=time_ms)
    assert producer.flush(30) == 0


def committing_then_failing(commit: Any) -> Any:
    def replaced(self: Any, *arguments: Any) -> None:
        commit(self, *arguments)
        raise RuntimeError("planted")

    return replaced


def raise_crash(*arguments: Any) -> None:
    raise Crash

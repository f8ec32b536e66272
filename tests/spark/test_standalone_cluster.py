"""`format("odradek")`, jobs and pipelines on a Spark cluster of two workers, and on its driver as a Connect server.

ODRADEK_SPARK_KILLS says how many of each kind are killed.
"""

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from odradek.pipelines.jobs.session import spark_session
from odradek.pipelines.jobs.tables.table import TableFormat, open_table
from tests.node_process import NodeProcess, free_ports
from tests.spark.cluster_kills import KINDS, ClusterUnderFire, shuffled
from tests.spark.declared import NAME, TOPIC, DeclaredPipeline
from tests.spark.patient_cli import PatientCli
from tests.spark.standalone import APPLICATION, HOST, StandaloneSpark, standalone_spark
from tests.wire.cli_call import Cli

KILLS = int(os.environ.get("ODRADEK_SPARK_KILLS", "5"))
SEED = int(os.environ.get("ODRADEK_SPARK_SEED", "11"))

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900 + 60 * KILLS), pytest.mark.tier("proof")]


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory, java: None) -> Iterator[StandaloneSpark]:
    with standalone_spark(tmp_path_factory.mktemp("standalone")) as started:
        yield started


@pytest.fixture(scope="module")
def connect_port() -> int:
    return free_ports(1)[0]


@pytest.fixture(scope="module")
def spark(
    workers: StandaloneSpark, connect_port: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """An application on the cluster. Its driver is a Connect server besides, which spares a second one."""
    conf = APPLICATION | {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(connect_port),
        # Or the first to come would take all tasks.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    }
    log_file = tmp_path_factory.mktemp("spark") / "spark.log"
    with spark_session("cluster-test", master=workers.url, log_file=log_file, conf=conf, is_short=True) as session:
        yield session


@pytest.fixture
def remote(spark: SparkSession, connect_port: int) -> tuple[str, str]:
    return ("--remote", f"sc://{HOST}:{connect_port}")


@pytest.fixture
def cli(broker: NodeProcess, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    return PatientCli(monkeypatch, capfdbinary, broker.bootstrap)


def put(broker: NodeProcess, topic: str, *values: Any) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    for number, value in enumerate(values):
        raw = value if isinstance(value, bytes) else json.dumps(value).encode()
        producer.produce(topic, raw, b"k", partition=number % 2)
    assert producer.flush(30) == 0


def create(cluster: Cluster, *topics: str) -> None:
    for topic in topics:
        Admin(cluster).create_topic(topic, partitions=2, replication_factor=1)


def values(cli: Cli, topic: str) -> list[bytes]:
    """As readers of committed records see them."""
    return cli.ok("consume", topic, "--no-follow", "--isolation", "read_committed").lines


def test_rows_are_read_on_every_worker(spark: SparkSession, broker: NodeProcess, cluster: Cluster) -> None:
    create(cluster, "numbers")
    put(broker, "numbers", *range(1000))
    reader = spark.read.format("odradek").option("kafka.bootstrap.servers", broker.bootstrap)
    rows = reader.options(subscribe="numbers", minPartitions="4").load().selectExpr("cast(value as string) as value")
    assert sorted(int(row.value) for row in rows.collect()) == list(range(1000))

    def daemon(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"pid": pa.array([os.getppid()], pa.int64())})

    assert len({row.pid for row in rows.mapInArrow(daemon, "pid bigint").collect()}) == 2


def test_jobs_on_a_connect_server(
    remote: tuple[str, str], cli: Cli, broker: NodeProcess, cluster: Cluster, tmp_path: Path
) -> None:
    create(cluster, "orders", "orders-dead", "orders-again")
    put(broker, "orders", *({"id": number} for number in range(300)), b"{")
    table = str(tmp_path / "table")
    letters = ("--dead-letters", "orders-dead", "--format", "json")
    done = cli.ok("job", "ingest", "orders", table, *letters, "--batch-records", "200", *remote)
    last = json.loads(done.lines[-1])
    assert (last["rows"], last["dead_letters"], last["lag"]) == (300, 1, 0)
    assert values(cli, "orders-dead") == [b"{"]
    audited = cli.ok("job", "audit", "orders", table, *letters, *remote).json
    assert audited["exact"] and sum(one["rows"] for one in audited["partitions"]) == 300

    cli.ok("job", "load", table, "orders-again", *remote)
    assert sorted(json.loads(value)["id"] for value in values(cli, "orders-again")) == list(range(300))
    refused = cli.error_line("job", "skew", "orders", "--conf", "spark.executor.memory=2g", *remote)
    assert "--conf spark.executor.memory: only the server can set this" in refused


PIPELINE = """
name: shop
bootstrap: {bootstrap}
sources:
  sales: {{topic: sales, schema: "id bigint, product string"}}
transformations:
  loud: {{python: "shouting.py:shout", from: sales}}
sinks:
  table: {{from: loud, table: loud}}
  topic: {{from: loud, topic: loud, key: product}}
dead_letters: sales-dead
"""
SHOUTING = """
from pyspark.sql import functions as F

def upper(product):
    return product.upper()

def shout(sales):
    return sales.select("id", F.udf(upper)("product").alias("product"))
"""


def test_a_pipeline_on_a_connect_server(
    remote: tuple[str, str], cli: Cli, broker: NodeProcess, cluster: Cluster, tmp_path: Path, spark: SparkSession
) -> None:
    create(cluster, "sales", "loud", "sales-dead")
    file = tmp_path / "shop.yaml"
    file.write_text(PIPELINE.format(bootstrap=broker.bootstrap))
    (tmp_path / "shouting.py").write_text(SHOUTING)
    cli.ok("pipeline", "validate", str(file), *remote)

    def run(count: int, *, new: set[int], bad: int = 0) -> None:
        done = cli.ok("pipeline", "run", str(file), "--format", "json", *remote)
        queries = {one["name"]: one for one in json.loads(done.lines[-1])["queries"]}
        assert {one["records"] for one in queries.values()} == new
        assert queries["sales.dead_letters"]["dead_letters"] == bad
        assert sorted(json.loads(value)["id"] for value in values(cli, "loud")) == list(range(count))
        files = open_table(TableFormat.DELTA, tmp_path / "loud").files()
        assert sorted(row.id for row in spark.read.parquet(*files).collect()) == list(range(count))

    put(broker, "sales", *({"id": number, "product": "p"} for number in range(10)), b"{")
    run(10, new={11}, bad=1)
    put(broker, "sales", *({"id": number, "product": "p"} for number in range(10, 20)))
    run(20, new={10})
    assert values(cli, "sales-dead") == [b"{"]
    # As if the driver had died when all sinks had written, and Spark did not know it yet.
    for commit in (tmp_path / ".odradek" / "shop").glob("*/commits/1"):
        commit.unlink()
        # A checksum beside it, without which there can be no new one.
        commit.with_name(".1.crc").unlink()
    put(broker, "sales", {"id": 20, "product": "p"})
    # A table's sink does not even read what it has written.
    run(21, new={11, 1})
    assert values(cli, "sales-dead") == [b"{"]


def test_the_sink_is_exactly_once_if_any_process_is_killed(
    spark: SparkSession, workers: StandaloneSpark, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    with ClusterUnderFire(tmp_path, spark, workers) as fire:
        happened = [fire.kill(kind, chance) for kind in shuffled(KINDS, KILLS, chance)]
        fire.finish()
        fire.check()
    assert len(happened) == KILLS * len(KINDS)


def test_a_declarative_pipeline_of_spark(
    remote: tuple[str, str], cli: Cli, broker: NodeProcess, cluster: Cluster, tmp_path: Path, spark: SparkSession
) -> None:
    create(cluster, TOPIC)
    pipeline = DeclaredPipeline(tmp_path, broker.bootstrap)
    file = str(pipeline.file)
    message = cli.error_line("pipeline", "run", file, "--command-config", file, *remote)
    assert "Set the options in the pipeline's flows" in message
    assert "Only `run` and `validate` support it" in cli.error_line("pipeline", "status", file)
    for count in (10, 30):
        put(broker, TOPIC, *range(20 if count > 10 else 10))
        done = cli.ok("pipeline", "run", file, "--format", "json", *remote)
        assert json.loads(done.lines[-1]) == {"event": "done", "name": NAME}
        # Another session has written it, and this one remembers its files.
        spark.catalog.refreshTable("counted")
        assert [row.clicks for row in spark.table("counted").collect()] == [count]
    pipeline.count("nothing")
    assert "Failed to resolve flows" in cli.error_line("pipeline", "validate", file, *remote)

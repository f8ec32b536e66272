"""A `spark-pipeline.yml` without a Connect server: one is started for each run, and knows what the run before did."""

import json
from pathlib import Path

import pyarrow.dataset as datasets
import pytest
from confluent_kafka import Producer

from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from tests.node_process import NodeProcess
from tests.spark.declared import NAME, TOPIC, DeclaredPipeline
from tests.spark.patient_cli import PatientCli
from tests.wire.cli_call import Cli

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.tier("proof")]
# As for every short run: compiling well would cost more than it saves.
LOCAL = ("--master", "local[1]", "--conf", "spark.sql.shuffle.partitions=1")


@pytest.fixture
def cli(broker: NodeProcess, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    return PatientCli(monkeypatch, capfdbinary, broker.bootstrap)


def test_the_next_run_knows_the_tables(
    cli: Cli, broker: NodeProcess, cluster: Cluster, tmp_path: Path, java: None
) -> None:
    Admin(cluster).create_topic(TOPIC, partitions=2, replication_factor=1)
    pipeline = DeclaredPipeline(tmp_path, broker.bootstrap)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for count in (10, 30):
        for number in range(20 if count > 10 else 10):
            producer.produce(TOPIC, b"%d" % number)
        assert producer.flush(30) == 0
        done = cli.ok("pipeline", "run", str(pipeline.file), "--format", "json", *LOCAL)
        assert json.loads(done.lines[-1]) == {"event": "done", "name": NAME}
        counted = datasets.dataset(tmp_path / "spark-warehouse" / "counted", format="parquet").to_table()
        assert counted.to_pylist() == [{"clicks": count}]
    # It leaves no files outside its own directories.
    assert {one.name for one in tmp_path.iterdir()} == {
        ".odradek",
        "spark-pipeline.yml",
        "spark-warehouse",
        "storage",
        "transformations",
    }

"""A job reports an external failure in one line, loses and duplicates nothing, and resumes with the same command."""

import base64
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

import odradek
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from tests.node_process import NodeProcess
from tests.wire.cli_call import Cli
from tests.wire.small_filesystem import SmallFilesystem, require_mounts, small_filesystem

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.tier("proof")]

RECORDS, RECORDS_OF_A_BATCH = 12_000, 4_000
VALUE_BYTES = 400
SMALL_MB, LARGE_MB = 4, 64


@pytest.fixture
def cli(
    broker: NodeProcess, java: None, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Cli:
    return Cli(monkeypatch, capfdbinary, broker.bootstrap)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallFilesystem]:
    require_mounts()
    with small_filesystem(tmp_path / "small", megabytes=SMALL_MB) as filesystem:
        yield filesystem


def put(broker: NodeProcess, cluster: Cluster, topic: str, values: list[bytes]) -> None:
    Admin(cluster).create_topic(topic, partitions=1, replication_factor=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    for value in values:
        producer.produce(topic, value)
        producer.poll(0)
    assert producer.flush(60) == 0


def test_ingest_reports_a_full_disk_and_resumes(
    cli: Cli, broker: NodeProcess, cluster: Cluster, small: SmallFilesystem
) -> None:
    chance = random.Random(1)
    values = [b'{"text": "%s"}' % base64.b64encode(chance.randbytes(VALUE_BYTES)) for _ in range(RECORDS)]
    put(broker, cluster, "large", values)
    table = str(small.path / "table")
    ingest = ("job", "ingest", "large", table, "--batch-records", str(RECORDS_OF_A_BATCH), "--master", "local[1]")
    # A task or the driver may notice first.
    assert "no space left on" in cli.error_line(*ingest).lower()
    small.resize(LARGE_MB)
    cli.ok(*ingest)
    offsets = DeltaTable(table).to_pyarrow_table(columns=["_offset"])["_offset"].to_pylist()
    assert sorted(offsets) == list(range(RECORDS))


def test_executors_with_another_version_are_rejected(
    cli: Cli, broker: NodeProcess, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(broker, cluster, "few", [b'{"id": 1}'])
    # Of this process, which is the driver: Spark's workers are others.
    monkeypatch.setattr(odradek, "__version__", "9.9.9")
    message = cli.error_line("job", "ingest", "few", str(tmp_path / "table"), "--master", "local[1]")
    assert "but the driver has 9.9.9. Install the same version" in message

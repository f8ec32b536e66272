"""`odradek job ingest` into a table of a real REST catalog, killed before and after its commit; audited."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyiceberg.catalog import load_catalog

from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from tests.catalog_front import CatalogFront, Fault, catalog_front
from tests.node_process import NodeProcess
from tests.rest_catalog import RestCatalogServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.tier("proof")]

TOKEN = "token-ungeziefer"
TOPIC = "orders"
WAIT_S = 500
SPARK = ("--master", "local[2]")


@pytest.fixture
def front(rest_catalog: RestCatalogServer) -> Iterator[CatalogFront]:
    with catalog_front(rest_catalog.port) as opened:
        opened.token = TOKEN
        yield opened


class Job:
    def __init__(self, broker: NodeProcess, table: Path, front: CatalogFront) -> None:
        self._bootstrap = broker.bootstrap
        self._table = table
        self._catalog = ("--as", "iceberg", "--catalog", front.address, "--catalog-table", "shop.orders")
        self.process: subprocess.Popen[bytes] | None = None

    def ingest(self, *, token: str = TOKEN) -> subprocess.CompletedProcess[str]:
        return self._run("ingest", *self._catalog, token=token)

    def audit(self) -> subprocess.CompletedProcess[str]:
        return self._run("audit", token=TOKEN)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()

    def _run(self, word: str, *options: str, token: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "odradek", "job", word, TOPIC, str(self._table), "--format", "json"]
        output, remarks = (self._table.with_name(name) for name in ("output", "remarks"))
        # Files and no pipes: of a process that is killed Java holds them open for a while.
        with output.open("w") as standard_output, remarks.open("w") as standard_error:
            self.process = subprocess.Popen(
                [*command, *options, "--bootstrap", self._bootstrap, *SPARK],
                stdout=standard_output,
                stderr=standard_error,
                # One that is killed leaves Spark's files there.
                env=os.environ | {"TMPDIR": str(self._table.parent), "PYICEBERG_CATALOG__ODRADEK__TOKEN": token},
                start_new_session=True,
            )
        self.process.wait(WAIT_S)
        return subprocess.CompletedProcess(command, self.process.returncode, output.read_text(), remarks.read_text())


def test_ingest_is_exactly_once_if_the_driver_is_killed_around_a_commit(
    broker: NodeProcess, cluster: Cluster, front: CatalogFront, rest_catalog: RestCatalogServer, tmp_path: Path
) -> None:
    Admin(cluster).create_topic(TOPIC, partitions=2, replication_factor=1)
    job = Job(broker, tmp_path / "table", front)
    produce(broker, range(200), lambda number: {"id": number})

    refused = job.ingest(token="wrong-ungeziefer")
    assert refused.returncode == 2 and "denied access" in refused.stderr, refused.stderr
    assert "Traceback" not in refused.stderr and "ungeziefer" not in refused.stderr + refused.stdout

    # Files are written, and nothing of them is committed.
    front.before_commit, front.faults = job.kill, [Fault.UNHEARD]
    assert job.ingest().returncode < 0
    assert list((tmp_path / "table").glob("*.parquet")) and ids(rest_catalog) == []

    # Everything is committed, but the response is lost.
    front.before_commit, front.after_commit, front.faults = lambda: None, job.kill, [Fault.RESPONSE_LOST]
    assert job.ingest().returncode < 0
    assert ids(rest_catalog) == list(range(200))

    # New fields, and a response that is lost while the job keeps running.
    produce(broker, range(200, 250), lambda number: {"id": number, "name": f"n{number}"})
    front.after_commit, front.faults = lambda: None, [Fault.RESPONSE_LOST] * 2
    done = job.ingest()
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["rows"] == 50
    assert ids(rest_catalog) == list(range(250))

    audited = job.audit()
    assert audited.returncode == 0, audited.stdout + audited.stderr
    kept = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert kept and not [file for file in kept if b"ungeziefer" in file.read_bytes()]


def produce(broker: NodeProcess, numbers: range, value: Callable[[int], object]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    for number in numbers:
        producer.produce(TOPIC, json.dumps(value(number)).encode(), partition=number % 2)
    assert producer.flush(30) == 0


def ids(server: RestCatalogServer) -> list[int]:
    """What another client of the catalog finds."""
    table = load_catalog("others", type="rest", uri=server.address).load_table("shop.orders")
    return sorted(table.scan().to_arrow()["id"].to_pylist())

"""`odradek job` as its users run it: killed, stopped by Ctrl-C, started again; an audit finds every record once.

ODRADEK_JOB_KILLS says how often it is killed.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from odradek.client.address import parse_bootstrap
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from tests.node_process import NodeProcess
from tests.odradek_process import OdradekProcess

KILLS = int(os.environ.get("ODRADEK_JOB_KILLS", "3"))
RECORDS = 1_500 * (1 + KILLS)
SEED = int(os.environ.get("ODRADEK_SPARK_SEED", "5"))
WAIT_S = 500
SMALL_BATCHES = ("--batch-records", "300")
SPARK = ("--master", "local[2]")

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900 + 120 * KILLS), pytest.mark.tier("proof")]


@pytest.fixture
def broker(tmp_path: Path, java: None) -> Iterator[NodeProcess]:
    node = OdradekProcess(tmp_path / "node")
    try:
        yield node.start()
    finally:
        node.remove()


class Commands:
    def __init__(self, broker: NodeProcess, table: Path) -> None:
        self._bootstrap = broker.bootstrap
        self._table = table

    @contextmanager
    def ingest(self, *options: str) -> Iterator[subprocess.Popen[str]]:
        command = ("ingest", "orders", str(self._table), "--dead-letters", "dead", "--format", "json", *options)
        with self._start(*command) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def audit(self) -> subprocess.CompletedProcess[str]:
        command = ("audit", "orders", str(self._table), "--dead-letters", "dead", "--format", "json")
        with self._start(*command) as process:
            output, remarks = process.communicate(timeout=WAIT_S)
        return subprocess.CompletedProcess(command, process.returncode, output, remarks)

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "odradek", "job", *arguments, "--bootstrap", self._bootstrap, *SPARK],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # One that is killed leaves Spark's files there.
            env=os.environ | {"TMPDIR": str(self._table.parent)},
            # A signal reaches it alone.
            start_new_session=True,
        )


def test_ingest_and_load_are_exactly_once_if_killed(broker: NodeProcess, tmp_path: Path) -> None:
    with Cluster(parse_bootstrap(broker.bootstrap)) as cluster:
        for topic in ("orders", "dead"):
            Admin(cluster).create_topic(topic, partitions=2, replication_factor=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    bad = 0
    for number in range(RECORDS):
        is_bad = number % 97 == 0
        bad += is_bad
        producer.produce("orders", b"{" if is_bad else json.dumps({"id": number}).encode(), partition=number % 2)
    assert producer.flush(60) == 0
    commands, chance = Commands(broker, tmp_path / "table"), random.Random(SEED)

    for _ in range(KILLS):
        with commands.ingest(*SMALL_BATCHES) as job:
            assert job.stdout is not None
            assert json.loads(job.stdout.readline())["event"] == "batch"
            time.sleep(chance.uniform(0.0, 1.5))
            assert job.poll() is None, "it was killed after its work"
            job.kill()

    with commands.ingest("--follow") as job:
        assert job.stdout is not None
        while json.loads(job.stdout.readline())["lag"]:
            pass
        job.send_signal(signal.SIGINT)
        output, remarks = job.communicate(timeout=WAIT_S)
        assert job.returncode == 130, remarks
        assert json.loads(output.splitlines()[-1])["event"] == "stopped"
        assert "Stopping after this batch" in remarks and "Traceback" not in remarks

    # There is nothing left to do, for which Spark is not even started.
    with commands.ingest() as job:
        output, remarks = job.communicate(timeout=WAIT_S)
        assert job.returncode == 0, remarks
        done = json.loads(output)
        assert (done["event"], done["rows"], done["lag"]) == ("done", 0, 0)

    audited = commands.audit()
    assert audited.returncode == 0, audited.stdout + audited.stderr
    found = json.loads(audited.stdout)
    assert found["exact"]
    assert sum(one["rows"] for one in found["partitions"]) == RECORDS - bad
    assert sum(one["dead_letters"] for one in found["partitions"]) == bad

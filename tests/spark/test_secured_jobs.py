"""Jobs and pipelines on a cluster that wants TLS and SASL, by `--command-config`; nothing that they leave is secret."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.cli.main import run
from odradek.cli.options import open_cluster
from odradek.client.address import Address
from odradek.client.groups import Groups
from odradek.client.produce import Producer
from odradek.pipelines.jobs.audit_topics import TopicAudit
from odradek.pipelines.jobs.load import LoadJob, LoadSettings
from odradek.pipelines.jobs.rewrite.audit import RewriteAudit
from odradek.pipelines.jobs.rewrite.erased_keys import ErasedKeys
from odradek.pipelines.jobs.rewrite.job import RewriteJob, RewriteSettings
from odradek.pipelines.jobs.rewrite.places import ErasureSearch
from odradek.pipelines.jobs.rewrite.rules import Rules
from odradek.pipelines.jobs.session import spark_session
from odradek.pipelines.jobs.skew.job import SkewJob, SkewSettings
from odradek.pipelines.jobs.state import JobState
from odradek.records.record import Record
from tests.certificates import make_certificate
from tests.kafka.secured_kafka import PASSWORDS, client_properties, create_known_topic, secured_kafka

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.tier("proof")]

PASSWORD = PASSWORDS["SCRAM-SHA-512"]
RECORDS = 200
WAIT_S = 300
JSON = ("--format", "json")
# In a run of seconds many tasks would cost more than they save.
SPARK = ("--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2")
PIPELINE = """
name: secured
bootstrap: {bootstrap}
command_config: client.properties
sources:
  orders: {{topic: orders}}
transformations:
  seen: {{python: "looking.py:look", from: orders}}
  values: SELECT value FROM seen
sinks:
  copies: {{from: values, topic: copies}}
"""
# All that Spark says of where a view comes from.
LOOKING = "def look(orders):\n    orders.explain(True)\n    return orders\n"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def secured(
    apache_kafka_libs: Path, java: None, certificate: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Address]:
    with secured_kafka(apache_kafka_libs, tmp_path_factory.mktemp("kafka"), certificate) as address:
        yield address


class Commands:
    """Started in a directory with the client's properties; what they say is kept."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.said = ""

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "odradek", *arguments, *SPARK],
            cwd=self.directory,
            env=os.environ | {"TMPDIR": str(self.directory)},
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        self.said += done.stdout + done.stderr
        return done

    def left(self) -> bytes:
        """What is in all files but the properties themselves."""
        files = (one for one in self.directory.rglob("*") if one.is_file() and one.suffix != ".properties")
        return b"".join(file.read_bytes() for file in files)


def test_secured_ingest_and_pipeline(
    secured: Address, certificate: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text(client_properties(certificate))
    with open_cluster(str(secured), 30.0, properties) as cluster:
        for topic in ("orders", "dead", "copies"):
            create_known_topic(cluster, topic, partitions=2)
        # The first group of the cluster creates __consumer_offsets; jobs should not wait for that.
        assert not Groups(cluster).offsets(["seen"])["seen"]
        producer = Producer(cluster)
        for number in range(RECORDS):
            producer.add("orders", Record(None, json.dumps({"id": number}).encode()), number % 2)
        producer.add("orders", Record(None, b"{"), 0)
        producer.flush()
    commands = Commands(tmp_path)
    reached = ("--bootstrap", str(secured), "--command-config", str(properties))

    done = commands.run(
        "job", "ingest", "orders", "table", "--dead-letters", "dead", "--group", "seen", *reached, *JSON
    )
    assert done.returncode == 0, commands.said
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["event"], result["rows"], result["dead_letters"], result["lag"]) == ("done", RECORDS, 1, 0)
    audited = commands.run("job", "audit", "orders", "table", "--dead-letters", "dead", *reached, *JSON)
    assert audited.returncode == 0, commands.said
    assert json.loads(audited.stdout)["exact"]
    with open_cluster(str(secured), 30.0, properties) as cluster:
        assert sum(Groups(cluster).offsets(["seen"])["seen"].values()) == RECORDS + 1

    (tmp_path / "secured.yaml").write_text(PIPELINE.format(bootstrap=secured))
    (tmp_path / "looking.py").write_text(LOOKING)
    done = commands.run("pipeline", "run", "secured.yaml")
    assert done.returncode == 0, commands.said
    assert "kafka.sasl.jaas.config=*********(redacted)" in done.stdout
    assert run(["consume", "copies", "--no-follow", "--isolation", "read_committed", *reached]) == 0
    assert len(capsys.readouterr().out.splitlines()) == RECORDS + 1

    key = next(line for line in certificate.read_text().splitlines() if "-" not in line)
    for secret in (PASSWORD, key):
        assert secret not in commands.said
        assert secret.encode() not in commands.left()


def test_the_other_jobs_reach_the_brokers_by_the_same_properties(
    secured: Address, certificate: Path, tmp_path: Path
) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text(client_properties(certificate))
    bootstrap, source = str(secured), tmp_path / "visits.json"
    source.write_text("".join(json.dumps({"shop": number % 5, "n": number}) + "\n" for number in range(RECORDS)))
    conf = {"spark.sql.shuffle.partitions": "2"}
    with (
        open_cluster(bootstrap, 30.0, properties) as cluster,
        spark_session("secured", master="local[2]", log_file=tmp_path / "log", conf=conf, is_short=True) as spark,
    ):
        create_known_topic(cluster, "visits", partitions=2)
        loading = JobState(tmp_path, "loading")
        with loading.hold():
            load = LoadSettings(
                bootstrap=bootstrap, source=source, topic="visits", state=tmp_path, name="loading", key="shop"
            )
            assert LoadJob(cluster, load, loading).run(spark).rows == RECORDS
        rewriting, erased = JobState(tmp_path, "rewriting"), ErasedKeys.of([b"3"])
        with rewriting.hold():
            settings = RewriteSettings(
                bootstrap=bootstrap,
                source="visits",
                target="visits-kept",
                state=tmp_path,
                name="rewriting",
                rules=Rules(erased=erased).check(),
            )
            assert RewriteJob(cluster, settings, rewriting).run(spark).rows == RECORDS * 4 // 5
        audited = RewriteAudit(cluster, bootstrap, "visits", "visits-kept", rewriting, "rewriting", erased).run(spark)
        assert audited.is_exact, list(audited.sentences())
        places = ErasureSearch(cluster, bootstrap, "visits", erased).places(spark, [])
        assert [(one.name, one.records) for one in places] == [("visits", RECORDS // 5)]
        found = TopicAudit(cluster, bootstrap, "visits", "visits-kept", "beginning", None).run(spark)
        assert (found.missing, found.double) == (RECORDS // 5, 0)
        skew = SkewJob(cluster, SkewSettings(bootstrap=bootstrap, topic="visits")).run(spark)
        assert skew.summary.records == RECORDS
    assert PASSWORD.encode() not in Commands(tmp_path).left()


@pytest.mark.parametrize("command", [("job", "ingest", "orders", "table"), ("pipeline", "run", "secured.yaml")])
def test_authentication_failures_are_one_line(
    secured: Address, certificate: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "secured.yaml").write_text(PIPELINE.format(bootstrap=secured))
    (tmp_path / "looking.py").write_text(LOOKING)
    commands = Commands(tmp_path)
    reached = ("--bootstrap", str(secured), "--command-config", "client.properties") if command[0] == "job" else ()
    trusting = client_properties(certificate, "guess")
    without_authorities = client_properties(certificate).partition("ssl.truststore")[0]
    for properties, said in ((trusting, "Authentication failed"), (without_authorities, "certificate is not trusted")):
        (tmp_path / "client.properties").write_text(properties)
        refused = commands.run(*command, *reached)
        assert refused.returncode == 2, commands.said
        (line,) = refused.stderr.splitlines()
        assert said in line and "Check the security settings in the --command-config file" in line
    assert PASSWORD not in commands.said and "guess" not in commands.said
    assert PASSWORD.encode() not in commands.left() and b"guess" not in commands.left()

"""A cluster of `odradek.testing` with `secure=True`: clients of other projects, and failover with TLS between nodes."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from odradek.cli.main import run
from odradek.local.security_files import SecurityFiles
from odradek.testing import Cluster
from odradek.testing.errors import ClusterError

MECHANISM = "SCRAM-SHA-512"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, secure=True) as started:
        yield started


@pytest.fixture
def files(cluster: Cluster) -> SecurityFiles:
    return SecurityFiles(cluster.client_properties.parent)


def test_confluent_kafka(cluster: Cluster, files: SecurityFiles) -> None:
    configs = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.username": "admin",
        "sasl.password": files.administrator().password,
        "ssl.ca.location": str(files.authority),
    }
    producer = Producer({**configs, "enable.idempotence": True})
    producer.produce("confluent", b"hello")
    assert producer.flush(20) == 0
    consumer = Consumer({**configs, "group.id": "confluent", "auto.offset.reset": "earliest"})
    consumer.subscribe(["confluent"])
    record = consumer.poll(20)
    assert record is not None and record.value() == b"hello"
    consumer.close()


def test_kafka_python(cluster: Cluster, files: SecurityFiles) -> None:
    configs = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": MECHANISM,
        "sasl_plain_username": "admin",
        "sasl_plain_password": files.administrator().password,
        "ssl_cafile": str(files.authority),
    }
    producer = KafkaProducer(**configs)
    producer.send("kafka-python", b"hello").get(20)
    producer.close()
    consumer = KafkaConsumer("kafka-python", auto_offset_reset="earliest", consumer_timeout_ms=20_000, **configs)
    assert next(consumer).value == b"hello"
    consumer.close()


def test_a_new_user_may_do_nothing_without_acls(
    cluster: Cluster,
    files: SecurityFiles,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bootstrap = ["-b", cluster.bootstrap_servers]
    administrator = ["--command-config", str(cluster.client_properties)]
    monkeypatch.setenv("ODRADEK_PASSWORD", "a password of ann")
    assert run(["user", "add", "ann", *bootstrap, *administrator]) == 0
    assert run(["topic", "create", "private", *bootstrap, *administrator]) == 0
    login = cluster.client_properties.read_text().replace('"admin"', '"ann"')
    ann = tmp_path / "ann.properties"
    ann.write_text(login.replace(files.administrator().password, "a password of ann"))
    deadline = time.monotonic() + 20
    while run(["topic", "list", "--format", "json", *bootstrap, "--command-config", str(ann)]) != 0:
        # Brokers receive the new user with the metadata log.
        assert time.monotonic() < deadline
    assert capsys.readouterr().out.endswith("[]\n")
    assert run(["produce", "private", "hello", *bootstrap, "--command-config", str(ann)]) == 2
    assert run(["topic", "delete", "private", "--yes", *bootstrap, "--command-config", str(ann)]) == 2
    assert "TOPIC_AUTHORIZATION_FAILED" in capsys.readouterr().err


def test_another_broker_leads_after_a_kill(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["-b", cluster.bootstrap_servers, "--command-config", str(cluster.client_properties)]
    assert run(["topic", "create", "failover", *options]) == 0
    leader = cluster.leader("failover")
    cluster.kill(leader)
    assert run(["produce", "failover", "hello", *options]) == 0
    assert cluster.leader("failover") != leader
    cluster.restart(leader)
    cluster.wait_until_healthy()
    capsys.readouterr()
    assert run(["consume", "failover", "--no-follow", *options]) == 0
    assert capsys.readouterr().out == "hello\n"


def test_only_secure_clusters_have_client_properties() -> None:
    with pytest.raises(ClusterError, match="secure=True"):
        _ = Cluster(1).client_properties

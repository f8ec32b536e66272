"""Odradek's client with an Apache Kafka broker that requires TLS and SASL."""

import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.cli.main import run
from odradek.client.address import Address
from odradek.client.cluster import Cluster
from odradek.client.errors import NotAuthenticated
from odradek.client.produce import Producer
from odradek.client.security import Sasl, Security, Tls
from odradek.records.record import Record
from tests.certificates import make_certificate
from tests.console.console_process import ConsoleProcess
from tests.kafka.secured_kafka import PASSWORDS, client_properties, create_known_topic, secured_kafka

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def secured(apache_kafka_libs: Path, certificate: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    with secured_kafka(apache_kafka_libs, tmp_path_factory.mktemp("kafka"), certificate) as address:
        yield address


@pytest.mark.parametrize(("mechanism", "password"), PASSWORDS.items())
def test_client_authenticates_with_sasl_and_is_rejected_with_a_wrong_password(
    secured: Address, certificate: Path, mechanism: str, password: str
) -> None:
    tls = Tls(authorities_file=str(certificate))
    security = Security(tls=tls, sasl=Sasl(mechanism=mechanism, username="anna", password=password))
    with Cluster([secured], security=security, timeout_s=30) as cluster:
        create_known_topic(cluster, mechanism, partitions=1)
        producer = Producer(cluster)
        producer.add(mechanism, Record(None, b"x" * 100_000))
        assert [one.record_count for one in producer.flush()] == [1]
    wrong = Security(tls=tls, sasl=Sasl(mechanism=mechanism, username="anna", password="guess"))
    with Cluster([secured], security=wrong, timeout_s=30) as cluster, pytest.raises(NotAuthenticated):
        cluster.layout()


def test_cli_and_console_read_command_config_properties(
    secured: Address, certificate: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"

    def write(password: str) -> tuple[str, ...]:
        file.write_text(client_properties(certificate, password))
        return "--bootstrap", str(secured), "--command-config", str(file)

    assert run(["topic", "create", "by-file", *write("guess")]) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert "Check the security settings in the --command-config file" in error and "guess" not in error
    assert run(["topic", "create", "by-file", *write(PASSWORDS["SCRAM-SHA-512"])]) == 0
    console = ConsoleProcess(str(secured), tmp_path, "--command-config", str(file))
    try:
        page = eventually_holds(f"{console.address}/topics", "by-file")
    finally:
        console.stop()
    assert PASSWORDS["SCRAM-SHA-512"] not in page + console.log
    assert "Traceback" not in console.log


def eventually_holds(address: str, text: str, seconds: float = 30.0) -> str:
    deadline = time.monotonic() + seconds
    while True:
        with urllib.request.urlopen(address, timeout=10) as response:
            page: str = response.read().decode()
        if text in page:
            return page
        assert time.monotonic() < deadline, page
        time.sleep(0.3)

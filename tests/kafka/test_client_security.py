"""The client before an Apache Kafka that wants TLS and SASL: what no broker of ours asks for yet."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.client.address import Address
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from odradek.client.errors import NotAuthenticated
from odradek.client.produce import Producer
from odradek.client.security import Sasl, Security, Tls
from odradek.records.record import Record
from tests.certificates import make_certificate
from tests.kafka.apache_kafka import ApacheKafka, KafkaTools
from tests.node_process import free_ports

pytestmark = pytest.mark.kafka

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def secured(apache_kafka_libs: Path, certificate: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    node = ApacheKafka(apache_kafka_libs, tmp_path_factory.mktemp("kafka"))
    (port,) = free_ports(1)
    controller = f"CONTROLLER://127.0.0.1:{node.controller_port}"
    node.properties |= {
        "listeners": f"PLAINTEXT://127.0.0.1:{node.port},SASL_SSL://127.0.0.1:{port},{controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificate),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_anna="secret";',
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    }
    try:
        node.start()
        credential = (
            "--add-config",
            "SCRAM-SHA-512=[password=hidden]",
            "--entity-type",
            "users",
            "--entity-name",
            "anna",
        )
        KafkaTools(apache_kafka_libs, node.bootstrap).configs("--alter", *credential)
        yield Address("127.0.0.1", port)
    finally:
        node.remove()


@pytest.mark.parametrize(("mechanism", "password"), [("PLAIN", "secret"), ("SCRAM-SHA-512", "hidden")])
def test_who_is_known_may_write(secured: Address, certificate: Path, mechanism: str, password: str) -> None:
    tls = Tls(authorities_file=str(certificate))
    security = Security(tls=tls, sasl=Sasl(mechanism=mechanism, username="anna", password=password))
    with Cluster([secured], security=security, timeout_s=30) as cluster:
        Admin(cluster).create_topic(mechanism, partitions=1, replication_factor=1)
        producer = Producer(cluster)
        producer.add(mechanism, Record(None, b"x" * 100_000))
        assert [one.record_count for one in producer.flush()] == [1]
    wrong = Security(tls=tls, sasl=Sasl(mechanism=mechanism, username="anna", password="guess"))
    with Cluster([secured], security=wrong, timeout_s=30) as cluster, pytest.raises(NotAuthenticated):
        cluster.layout()

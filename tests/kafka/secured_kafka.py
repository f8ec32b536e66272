"""An Apache Kafka broker that requires TLS and SASL of its clients."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from odradek.client.address import Address
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from odradek.client.errors import NotAuthenticated
from odradek.client.security import Sasl, Security, Tls
from tests.kafka.apache_kafka import ApacheKafka, KafkaTools
from tests.node_process import free_ports
from tests.wire.plain_requests import until

PASSWORDS = {"PLAIN": "secret", "SCRAM-SHA-512": "ungeziefer"}
"""The passwords of user anna, by mechanism."""
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@contextmanager
def secured_kafka(libs: Path, directory: Path, certificate: Path) -> Iterator[Address]:
    """Run the broker and yield its secured address. `certificate`: a PEM file with the key."""
    node = ApacheKafka(libs, directory)
    (port,) = free_ports(1)
    controller = f"CONTROLLER://127.0.0.1:{node.controller_port}"
    node.properties |= {
        "listeners": f"PLAINTEXT://127.0.0.1:{node.port},SASL_SSL://127.0.0.1:{port},{controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificate),
        "sasl.enabled.mechanisms": ",".join(PASSWORDS),
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_anna="{PASSWORDS["PLAIN"]}";',
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    }
    try:
        node.start()
        password = f"SCRAM-SHA-512=[password={PASSWORDS['SCRAM-SHA-512']}]"
        anna = ("--entity-type", "users", "--entity-name", "anna")
        KafkaTools(libs, node.bootstrap).configs("--alter", "--add-config", password, *anna)
        address = Address("127.0.0.1", port)
        until(lambda: _knows_anna(address, certificate), what="the credentials of anna on the broker")
        yield address
    finally:
        node.remove()


def client_properties(certificate: Path, password: str = PASSWORDS["SCRAM-SHA-512"]) -> str:
    """Client properties of user anna with SCRAM."""
    return (
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={SCRAM_MODULE} required \\\n username="anna" \\\n password="{password}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={certificate}\n"
    )


def _knows_anna(address: Address, certificate: Path) -> bool:
    sasl = Sasl(mechanism="SCRAM-SHA-512", username="anna", password=PASSWORDS["SCRAM-SHA-512"])
    security = Security(tls=Tls(authorities_file=str(certificate)), sasl=sasl)
    try:
        with Cluster([address], security=security, timeout_s=30) as cluster:
            cluster.layout()
    except NotAuthenticated:
        return False
    return True


def create_known_topic(cluster: Cluster, name: str, *, partitions: int) -> None:
    """Create a topic and wait until the broker has it: Kafka's controller responds earlier."""
    Admin(cluster).create_topic(name, partitions=partitions, replication_factor=1)
    until(lambda: name in cluster.layout(None).topics, what=f"topic {name}")

"""TLS between real clients and a node: who is let in, who is not, and how certificates are renewed."""

import contextlib
import itertools
import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from odradek.base.principal import ANONYMOUS, Principal
from odradek.node import security
from odradek.node.node import StartError
from tests.certificates import Authority, Issued
from tests.kafka.apache_kafka import KafkaTools
from tests.node_process import KEEPS_OLD_RECORDS, free_ports
from tests.wire.hosted_node import HostedNode

_numbers = itertools.count(1)
MUTUAL = "listener.name.mutual."


class Files:
    """A node's key material, in a directory of the test."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority, self.clients = Authority(), Authority("Client CA")
        self.ca = directory / "ca.pem"
        self.ca.write_bytes(self.authority.pem)
        self.trusted = directory / "trusted.pem"
        self.trusted.write_bytes(self.clients.pem + self.authority.pem)
        self.key_store = self.authority.issue().save(directory / "node.pem")

    def properties(self, port: int, mutual_port: int, controller_port: int) -> dict[str, str]:
        return {
            **KEEPS_OLD_RECORDS,
            "listeners": f"SSL://127.0.0.1:{port},MUTUAL://127.0.0.1:{mutual_port},"
            f"CONTROLLER://127.0.0.1:{controller_port}",
            "listener.security.protocol.map": "SSL:SSL,MUTUAL:SSL,CONTROLLER:PLAINTEXT",
            "security.inter.broker.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.key_store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
            f"{MUTUAL}ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([a-z]+)$/$1/",
        }

    def save(self, issued: Issued) -> Path:
        return issued.save(self.directory / f"client-{next(_numbers)}.pem")


class TlsNode:
    def __init__(self, directory: Path) -> None:
        self.files = Files(directory)
        self.port, self.mutual_port = free_ports(2)
        self.hosted = self.new_node(directory / "node", {})

    def new_node(self, directory: Path, changed: dict[str, str]) -> HostedNode:
        controller_port = free_ports(1)[0]
        properties = self.files.properties(self.port, self.mutual_port, controller_port)
        voters = {"controller.quorum.voters": f"1@127.0.0.1:{controller_port}"}
        return HostedNode(directory, properties=properties | voters | changed)

    def client(self, mutual: bool = False, **more: str) -> dict[str, object]:
        return {
            "bootstrap.servers": f"127.0.0.1:{self.mutual_port if mutual else self.port}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.files.ca),
            "topic.metadata.refresh.interval.ms": 1000,
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def principals(self) -> set[Principal]:
        """Of the open connections."""
        limits = self.hosted.node._listeners._client_limits
        return self.hosted.call(lambda: {one.principal for one in limits.connections()})

    def with_certificate(self, issued: Issued) -> dict[str, object]:
        path = str(self.files.save(issued))
        return self.client(mutual=True, ssl_certificate_location=path, ssl_key_location=path)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsNode]:
    made = TlsNode(tmp_path_factory.mktemp("tls"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(security, "CHECK_INTERVAL_MS", 100)
        with made.hosted:
            yield made


def produce_and_consume(configs: dict[str, object], count: int = 20, size: int = 100) -> None:
    topic = f"tls-{next(_numbers)}"
    producer = Producer({**configs, "message.max.bytes": 10_000_000})
    for number in range(count):
        producer.produce(topic, number.to_bytes(4, "big") * (size // 4), partition=0)
    assert producer.flush(20) == 0
    consumer = Consumer({**configs, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        messages = consumer.consume(count, timeout=20)
        assert [message.value()[:4] for message in messages] == [n.to_bytes(4, "big") for n in range(count)]
        assert all(len(message.value()) == size // 4 * 4 for message in messages)
    finally:
        consumer.close()


def failure_of(configs: dict[str, object]) -> str:
    """The text of the first error that the client reports."""
    errors: list[KafkaError] = []
    admin = AdminClient({**configs, "error_cb": errors.append, "log_level": 0})
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        admin.poll(0.1)
        if found := [one for one in errors if one.code() in (KafkaError._SSL, KafkaError._TRANSPORT)]:
            return found[0].str()
    raise AssertionError("the client could connect")


def test_produce_and_consume(node: TlsNode) -> None:
    produce_and_consume(node.client())


def test_large_records(node: TlsNode) -> None:
    produce_and_consume(node.client(), count=30, size=900_000)


@pytest.mark.parametrize(
    ("version", "name"), [(ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")]
)
def test_both_versions(node: TlsNode, version: ssl.TLSVersion, name: str) -> None:
    context = ssl.create_default_context(cafile=str(node.files.ca))
    context.minimum_version = context.maximum_version = version
    with (
        socket.create_connection(("127.0.0.1", node.port)) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        assert connection.version() == name
        # A request in records of one byte, and its response.
        for byte in bytes.fromhex("0000000f 0012 0000 00000007 0005") + b"hello":
            connection.sendall(bytes((byte,)))
        assert connection.recv(8)[4:] == (7).to_bytes(4, "big")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_old_versions_are_refused(node: TlsNode) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with socket.create_connection(("127.0.0.1", node.port)) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain)


def test_client_rejects_another_authority(node: TlsNode) -> None:
    node.files.directory.joinpath("other.pem").write_bytes(Authority("Other").pem)
    configs = node.client(ssl_ca_location=str(node.files.directory / "other.pem"))
    assert "certificate" in failure_of(configs).lower()


def test_client_certificate_is_required_where_configured(node: TlsNode) -> None:
    produce_and_consume(node.with_certificate(node.files.clients.issue("alice", hosts=())))
    failure_of(node.client(mutual=True))


def test_principal_is_derived_from_the_certificate(node: TlsNode) -> None:
    configs = node.with_certificate(node.files.clients.issue("alice", hosts=()))
    admin = AdminClient(configs)
    until(lambda: bool(admin.list_topics(timeout=10)) and Principal("User", "alice") in node.principals())
    anonymous = AdminClient(node.client())
    until(lambda: bool(anonymous.list_topics(timeout=10)) and ANONYMOUS in node.principals())


def test_certificate_that_no_rule_matches_closes_the_connection(
    node: TlsNode, caplog: pytest.LogCaptureFixture
) -> None:
    admin = AdminClient(node.with_certificate(node.files.clients.issue("Alice 2", hosts=())))
    with caplog.at_level(logging.WARNING, "odradek"), pytest.raises(KafkaException):
        admin.list_topics(timeout=0.5)
    until(lambda: any("No rules apply to CN=Alice 2" in text for text in caplog.messages))


@pytest.mark.kafka
def test_java_client(node: TlsNode, apache_kafka_libs: Path, tmp_path: Path) -> None:
    """Its key store is PEM, its version TLS 1.3, and it checks the host name."""
    client = node.files.save(node.files.clients.issue("java", hosts=()))
    configs = tmp_path / "client.properties"
    configs.write_text(
        "security.protocol=SSL\nssl.truststore.type=PEM\nssl.keystore.type=PEM\n"
        f"ssl.truststore.location={node.files.ca}\nssl.keystore.location={client}\n"
    )
    tools = KafkaTools(apache_kafka_libs, f"127.0.0.1:{node.mutual_port}")
    file = ("--command-config", str(configs))
    tools.console_producer(*file, "--topic", "java", lines=[str(number) for number in range(100)])
    limits = ("--max-messages", "100", "--timeout-ms", "20000")
    output = tools.console_consumer(*file, "--topic", "java", "--from-beginning", *limits)
    assert [line for line in output.splitlines() if line.isdecimal()] == [str(number) for number in range(100)]


@pytest.mark.parametrize("kind", ["expired", "another authority"])
def test_invalid_client_certificates_are_refused(node: TlsNode, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    expired = kind == "expired"
    issued = node.files.clients.issue("alice", days=-1) if expired else Authority("Other").issue("alice")
    reason = "certificate has expired" if expired else "unable to get local issuer certificate"
    with caplog.at_level(logging.INFO, "odradek"):
        failure_of(node.with_certificate(issued))
        until(lambda: any("handshake failed" in one and "MUTUAL" in one and reason in one for one in caplog.messages))


def test_probe_of_the_port_is_not_logged(node: TlsNode, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "odradek"):
        socket.create_connection(("127.0.0.1", node.port)).close()
        until(lambda: any("before the end of its TLS handshake" in text for text in caplog.messages))
    assert not [one for one in caplog.records if one.levelno > logging.DEBUG]


def test_plaintext_on_a_tls_port_closes_the_connection(node: TlsNode, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "odradek"), socket.create_connection(("127.0.0.1", node.port)) as plain:
        plain.sendall(bytes.fromhex("0000000f 0012 0000 00000007 0005") + b"hello")
        plain.settimeout(5)
        with contextlib.suppress(ConnectionResetError):
            assert plain.recv(100) == b""
        until(lambda: any("the client does not speak TLS" in text for text in caplog.messages))


def test_announced_client_hello_is_bounded(node: TlsNode) -> None:
    with socket.create_connection(("127.0.0.1", node.port)) as plain:
        plain.sendall(bytes.fromhex("16 0301 4000 01 01ffff") + bytes(100))
        plain.settimeout(5)
        with contextlib.suppress(ConnectionResetError):
            assert plain.recv(100) == b""


def served_serial(node: TlsNode) -> int:
    context = ssl.create_default_context(cafile=str(node.files.ca))
    with (
        socket.create_connection(("127.0.0.1", node.port)) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        certificate = connection.getpeercert()
    assert certificate is not None
    return int(str(certificate["serialNumber"]), 16)


def serial_of(issued: Issued) -> int:
    from cryptography import x509

    return x509.load_pem_x509_certificate(issued.certificate).serial_number


def test_renewed_file_is_applied_while_a_client_stays_connected(node: TlsNode) -> None:
    producer = Producer(node.client())
    producer.produce("renewed", b"before", partition=0)
    assert producer.flush(20) == 0
    issued = node.files.authority.issue()
    issued.save(node.files.key_store)
    until(lambda: served_serial(node) == serial_of(issued))
    producer.produce("renewed", b"after", partition=0)
    assert producer.flush(20) == 0


@pytest.mark.parametrize("kind", ["damaged", "other name"])
def test_invalid_renewal_keeps_the_old_certificate(node: TlsNode, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    before = served_serial(node)
    saved = node.files.key_store.read_bytes()
    with caplog.at_level(logging.WARNING, "odradek"):
        if kind == "damaged":
            node.files.key_store.write_bytes(saved[: len(saved) // 2])
        else:
            node.files.authority.issue("somebody else").save(node.files.key_store)
        until(lambda: any("the old one stays" in text for text in caplog.messages))
    assert served_serial(node) == before
    node.files.key_store.write_bytes(saved)


def alter(node: TlsNode, **configs: str) -> None:
    prefix = "listener.name.ssl.ssl."
    entries = [
        ConfigEntry(prefix + name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=entries)
    admin = AdminClient(node.client())
    admin.incremental_alter_configs([resource])[resource].result(20)


def test_key_store_is_changed_with_alter_configs(node: TlsNode) -> None:
    issued = node.files.authority.issue()
    alter(node, keystore_location=str(node.files.save(issued)))
    until(lambda: served_serial(node) == serial_of(issued))


@pytest.mark.parametrize("kind", ["missing", "no key", "other name", "fewer hosts"])
def test_invalid_key_store_is_rejected_by_alter_configs(node: TlsNode, kind: str) -> None:
    authority = node.files.authority
    paths = {
        "missing": lambda: node.files.directory / "missing.pem",
        "no key": lambda: node.files.ca,
        "other name": lambda: node.files.save(authority.issue("somebody else")),
        "fewer hosts": lambda: node.files.save(authority.issue(hosts=("127.0.0.1",))),
    }
    reasons = {
        "missing": "No such file",
        "no key": "there is no private key",
        "other name": "Keystore DistinguishedName does not match",
        "fewer hosts": "Keystore SubjectAltNames do not match",
    }
    before = served_serial(node)
    with pytest.raises(KafkaException) as raised:
        alter(node, keystore_location=str(paths[kind]()))
    error = raised.value.args[0]
    assert error.code() == KafkaError.INVALID_REQUEST
    assert "Validation of dynamic config update of SSLFactory failed" in error.str()
    assert reasons[kind] in error.str()
    assert served_serial(node) == before


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"ssl.keystore.location": "/missing.pem"}, "cannot read /missing.pem: No such file or directory"),
        ({"ssl.keystore.location": "{ca}"}, "there is no private key"),
        ({"ssl.truststore.location": "{key}"}, None),
        ({"ssl.truststore.location": "{other}"}, "can't connect to a server SSLEngine created with those settings"),
        ({"ssl.principal.mapping.rules": "RULE:("}, "ssl.principal.mapping.rules: Invalid rule: `RULE:(`"),
    ],
)
def test_node_does_not_start_with_unusable_key_material(
    tmp_path: Path, changed: dict[str, str], message: str | None
) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(Authority("Other").pem)
    made = TlsNode(tmp_path)
    paths = {"ca": made.files.ca, "key": made.files.key_store, "other": other}
    given = {name: text.format(**paths) for name, text in changed.items()}
    hosted = made.new_node(tmp_path / "node", given)
    if message is None:
        # A certificate that is trusted itself.
        with hosted:
            return
    with pytest.raises(StartError) as raised, hosted:
        pass
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def until(is_true: Callable[[], bool], seconds_max: float = 10.0) -> None:
    deadline = time.monotonic() + seconds_max
    while not is_true():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)

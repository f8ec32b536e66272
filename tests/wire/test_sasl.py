"""SASL with real clients: librdkafka and Kafka's own tools, and hostile ones."""

import contextlib
import resource
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from kio.schema.errors import ErrorCode

from odradek.server.authentication import HANDSHAKE_BYTES_MAX, MESSAGE_BYTES_MAX
from odradek.wire.sasl.scram_client import ScramClient
from tests.certificates import Authority
from tests.kafka.apache_kafka import REFERENCE, SHORT_LIVED_FLAGS, KafkaTools, ToolFailed
from tests.metrics_scrape import scrape
from tests.raw_wire import ConnectionClosed, RawConnection, decode_response, framed
from tests.wire.plain_requests import until
from tests.wire.secured_broker import (
    MECHANISMS,
    OAUTH_MODULE,
    PASSWORD,
    PLAIN_MODULE,
    SCRAM_MODULE,
    Secured,
    SecuredBroker,
    SecuredKafka,
)

TIMEOUT_S = 20.0
SESSIONS = {"listener.name.clients.connections.max.reauth.ms": "1500"}
Node = TypeVar("Node", bound=Secured)
HANDSHAKE, AUTHENTICATE, METADATA, API_VERSIONS = 17, 36, 3, 18
RESIDENT_BYTES_MAX = 64 * 1024
CONNECTIONS = 500


@pytest.fixture(scope="module")
def odradek(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with running(SecuredBroker(tmp_path_factory.mktemp("secured"))) as node:
        yield node


@pytest.fixture(params=["odradek", pytest.param("secured_kafka", marks=REFERENCE)])
def secured(request: pytest.FixtureRequest) -> Secured:
    node = request.getfixturevalue(request.param)
    assert isinstance(node, Secured)
    return node


@pytest.fixture(scope="module")
def secured_kafka(tmp_path_factory: pytest.TempPathFactory, apache_kafka_libs: Path) -> Iterator[SecuredKafka]:
    with running(SecuredKafka(apache_kafka_libs, tmp_path_factory.mktemp("kafka"))) as node:
        yield node


@contextlib.contextmanager
def running(node: Node) -> Iterator[Node]:
    try:
        node.start()
        yield node
    finally:
        node.remove()


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    directory = tmp_path_factory.mktemp("encrypted")
    authority = Authority()
    (directory / "ca.pem").write_bytes(authority.pem)
    key_store = authority.issue().save(directory / "node.pem")
    properties = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(key_store)}
    with running(SecuredBroker(directory, protocol="SASL_SSL", properties=properties)) as node:
        yield node


def settings(broker: Secured, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.sasl_bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "log_level": 0,
        **(
            {"oauth_cb": lambda _: (password if password != PASSWORD else broker.token(), time.time() + 300)}
            if mechanism == "OAUTHBEARER"
            else {"sasl.username": "alice", "sasl.password": password}
        ),
    }


# Real clients


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_produces_and_consumes(secured: Secured, mechanism: str) -> None:
    topic = f"topic-{mechanism}"
    delivered: list[KafkaError | None] = []
    producer = Producer(settings(secured, mechanism))
    producer.poll(0)
    producer.produce(topic, b"value", on_delivery=lambda error, _: delivered.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    assert delivered == [None]
    group = {"group.id": mechanism, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings(secured, mechanism), **group})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.value() == b"value"
    finally:
        consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_learns_that_its_credentials_are_wrong(secured: Secured, mechanism: str) -> None:
    errors: list[KafkaError] = []
    wrong = secured.token(aud="elsewhere") if mechanism == "OAUTHBEARER" else "wrong"
    producer = Producer({**settings(secured, mechanism, wrong), "error_cb": errors.append})
    until(
        lambda: producer.poll(0.05) or any(one.code() == KafkaError._AUTHENTICATION for one in errors),
        what="the error of the login",
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafkas_tools_authenticate(secured: Secured, apache_kafka_libs: Path, tmp_path: Path, mechanism: str) -> None:
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    login, flags = f'{module} required username="alice" password="{PASSWORD}";', list(SHORT_LIVED_FLAGS)
    properties = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
    if mechanism == "OAUTHBEARER":
        token = tmp_path / "token"
        token.write_text(secured.token())
        login = f"{OAUTH_MODULE} required;"
        properties += f"sasl.oauthbearer.token.endpoint.url={token.as_uri()}\n"
        handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        properties += f"sasl.login.callback.handler.class={handler}\n"
        flags += [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{kind}={token.as_uri()}" for kind in ("urls", "files")]
    config = tmp_path / "client.properties"
    config.write_text(f"{properties}sasl.jaas.config={login}\n")
    tools = KafkaTools(apache_kafka_libs, secured.sasl_bootstrap)
    arguments = ("--bootstrap-server", secured.sasl_bootstrap, "--command-config", str(config))
    topic = f"java-{mechanism}"
    command = "org.apache.kafka.tools.TopicCommand"
    tools.run(command, *arguments, "--create", "--topic", topic, flags=flags)
    assert topic in tools.run(command, *arguments, "--list", flags=flags)
    if mechanism != "OAUTHBEARER":
        config.write_text(f"{properties}sasl.jaas.config={login.replace(PASSWORD, 'wrong')}\n")
        with pytest.raises(ToolFailed, match="Authentication failed"):
            tools.run(command, *arguments, "--list", flags=flags)


@pytest.mark.parametrize("mechanism", ("PLAIN", "SCRAM-SHA-512"))
def test_confluent_kafka_authenticates_over_tls(encrypted: SecuredBroker, mechanism: str) -> None:
    trusted = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(encrypted.directory / "ca.pem")}
    producer = Producer({**settings(encrypted, mechanism), **trusted})
    delivered: list[KafkaError | None] = []
    producer.produce(f"tls-{mechanism}", b"value", on_delivery=lambda error, _: delivered.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    assert delivered == [None]


# Single requests


@pytest.fixture
def raw(secured: Secured) -> Iterator[RawConnection]:
    with RawConnection(secured.sasl_port) as connection:
        yield connection


def log_in(connection: RawConnection, name: str = "alice", password: str = PASSWORD) -> Any:
    response = connection.request(HANDSHAKE, 1, {"mechanism": "PLAIN"})
    assert response.error_code is ErrorCode.none
    return connection.request(AUTHENTICATE, 2, {"auth_bytes": f"\0{name}\0{password}".encode()})


def test_handshake_lists_the_mechanisms(raw: RawConnection) -> None:
    response = raw.request(HANDSHAKE, 1, {"mechanism": "GSSAPI"})
    assert response.error_code is ErrorCode.unsupported_sasl_mechanism
    assert sorted(response.mechanisms) == sorted(MECHANISMS)
    assert_closed(raw)


def test_requests_after_the_login_are_served(raw: RawConnection) -> None:
    assert raw.request(API_VERSIONS, 0, {}).error_code is ErrorCode.none
    assert log_in(raw).error_code is ErrorCode.none
    assert raw.request(METADATA, 1, {"topics": []}).brokers
    assert raw.request(HANDSHAKE, 1, {"mechanism": "PLAIN"}).error_code is ErrorCode.illegal_sasl_state
    assert raw.request(AUTHENTICATE, 2, {"auth_bytes": b""}).error_code is ErrorCode.illegal_sasl_state


def test_sasl_requests_on_a_plaintext_listener_are_in_an_illegal_state(secured: Secured) -> None:
    with RawConnection(secured.port) as plain:
        assert plain.request(HANDSHAKE, 1, {"mechanism": "PLAIN"}).error_code is ErrorCode.illegal_sasl_state
        response = plain.request(AUTHENTICATE, 2, {"auth_bytes": b""})
        assert response.error_code is ErrorCode.illegal_sasl_state
        assert response.error_message == "SaslAuthenticate request received after successful authentication"
        keys = {one.api_key for one in plain.request(API_VERSIONS, 0, {}).api_keys}
        assert {HANDSHAKE, AUTHENTICATE} <= keys


def test_failure_is_delayed_and_then_closes(raw: RawConnection) -> None:
    begun = time.monotonic()
    response = log_in(raw, password="wrong")
    assert response.error_code is ErrorCode.sasl_authentication_failed
    assert time.monotonic() - begun >= 0.1
    assert_closed(raw)


def test_raw_messages_without_headers_authenticate(secured: Secured) -> None:
    with RawConnection(secured.sasl_port) as raw:
        assert raw.request(HANDSHAKE, 0, {"mechanism": "PLAIN"}).error_code is ErrorCode.none
        raw.socket.sendall(framed(f"\0alice\0{PASSWORD}".encode()))
        assert raw.socket.recv(4, socket.MSG_WAITALL) == b"\0\0\0\0"
        assert raw.request(METADATA, 1, {"topics": []}).brokers


# Hostile clients


def assert_closed(raw: RawConnection) -> None:
    raw.socket.settimeout(TIMEOUT_S)
    with contextlib.suppress(ConnectionResetError):
        assert raw.socket.recv(1) == b""


def test_request_before_the_login_closes(raw: RawConnection) -> None:
    with pytest.raises((ConnectionClosed, ConnectionResetError)):
        raw.request(METADATA, 1, {"topics": []})


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        framed(b""),
        framed(b"\xff" * 64),
        struct.pack(">i", -1),
        struct.pack(">i", 524_289),
        struct.pack(">i", 2**31 - 1),
    ],
)
def test_garbage_before_the_login_closes(raw: RawConnection, data: bytes) -> None:
    raw.socket.sendall(data)
    assert_closed(raw)


def test_oversized_login_closes_before_it_is_read(raw: RawConnection) -> None:
    raw.request(HANDSHAKE, 1, {"mechanism": "PLAIN"})
    raw.socket.sendall(struct.pack(">i", 524_289))
    assert_closed(raw)


def test_frames_before_the_login_are_smaller_than_those_of_kafka(odradek: SecuredBroker) -> None:
    with RawConnection(odradek.sasl_port) as raw:
        raw.socket.sendall(struct.pack(">i", HANDSHAKE_BYTES_MAX + 1))
        assert_closed(raw)
    with RawConnection(odradek.sasl_port) as raw:
        raw.request(HANDSHAKE, 1, {"mechanism": "PLAIN"})
        raw.socket.sendall(struct.pack(">i", MESSAGE_BYTES_MAX + 1))
        assert_closed(raw)
    with RawConnection(odradek.sasl_port) as raw:
        raw.request(HANDSHAKE, 1, {"mechanism": "OAUTHBEARER"})
        message = f"n,,\x01auth=Bearer {'x' * 2 * MESSAGE_BYTES_MAX}\x01\x01".encode()
        assert raw.request(AUTHENTICATE, 2, {"auth_bytes": message}).auth_bytes == b'{"status":"invalid_token"}'


def test_recorded_login_of_scram_cannot_be_repeated(secured: Secured) -> None:
    client = ScramClient("SCRAM-SHA-256", "alice", PASSWORD, "nonce")
    first = client.first()
    with RawConnection(secured.sasl_port) as victim:
        victim.request(HANDSHAKE, 1, {"mechanism": "SCRAM-SHA-256"})
        challenge = victim.request(AUTHENTICATE, 2, {"auth_bytes": first}).auth_bytes
        final = client.final(challenge)
        assert victim.request(AUTHENTICATE, 2, {"auth_bytes": final}).error_code is ErrorCode.none
    with RawConnection(secured.sasl_port) as attacker:
        attacker.request(HANDSHAKE, 1, {"mechanism": "SCRAM-SHA-256"})
        assert attacker.request(AUTHENTICATE, 2, {"auth_bytes": first}).error_code is ErrorCode.none
        response = attacker.request(AUTHENTICATE, 2, {"auth_bytes": final})
        assert response.error_code is ErrorCode.sasl_authentication_failed
        assert response.error_message == (
            "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
        )


def test_metrics_count_authentications(odradek: SecuredBroker) -> None:
    def read() -> tuple[float, float]:
        scraped = scrape(odradek.http_port)
        name = "kafka_server_socket_server_metrics_{}_authentication_total"
        successful, failed = (scraped(name.format(kind), listener="CLIENTS") for kind in ("successful", "failed"))
        return successful, failed

    successful, failed = read()
    with RawConnection(odradek.sasl_port) as right, RawConnection(odradek.sasl_port) as wrong:
        log_in(right)
        log_in(wrong, password="wrong")
    assert read() == (successful + 1, failed + 1)


def test_described_configs_have_no_secrets(odradek: SecuredBroker) -> None:
    admin = AdminClient({"bootstrap.servers": odradek.bootstrap})
    resource = ConfigResource(ResourceType.BROKER, "1")
    described = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    login = described["listener.name.clients.plain.sasl.jaas.config"]
    assert login.is_sensitive
    assert login.value is None
    assert PASSWORD not in str([(one.value, one.synonyms) for one in described.values()])


def test_log_has_no_secrets(odradek: SecuredBroker) -> None:
    output = odradek.output_file.read_text()
    assert "Failed authentication with" in output
    assert PASSWORD not in output
    assert "wrong\n" not in output


def test_unauthenticated_connections_are_small(odradek: SecuredBroker) -> None:
    """Each has sent as much of a request as it may without completing it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * CONNECTIONS:
        pytest.skip("the limit of open files is too low")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    before = odradek.resident_bytes
    held = []
    try:
        for _ in range(CONNECTIONS):
            held.append(socket.create_connection(("127.0.0.1", odradek.sasl_port)))
            held[-1].sendall(struct.pack(">i", 16_384) + b"x" * 16_000)
        with RawConnection(odradek.sasl_port) as last:
            assert log_in(last).error_code is ErrorCode.none
        grown = (odradek.resident_bytes - before) / CONNECTIONS
        print(f"{grown:.0f} bytes per unauthenticated connection")
        assert grown < RESIDENT_BYTES_MAX
    finally:
        for one in held:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# Sessions


def test_session_ends_unless_the_client_authenticates_again(tmp_path: Path) -> None:
    check_sessions(SecuredBroker(tmp_path, properties=SESSIONS))


@pytest.mark.kafka
@pytest.mark.reference
def test_session_of_kafka_ends_unless_the_client_authenticates_again(tmp_path: Path, apache_kafka_libs: Path) -> None:
    check_sessions(SecuredKafka(apache_kafka_libs, tmp_path, properties=SESSIONS))


def check_sessions(broker: Secured) -> None:
    with (
        running(broker) as node,
        RawConnection(node.sasl_port) as raw,
        RawConnection(node.sasl_port) as other,
        RawConnection(node.sasl_port) as changing,
    ):
        assert log_in(other).session_lifetime.total_seconds() == 1.5
        log_in(raw)
        log_in(changing)
        time.sleep(1.1)
        # Requests in flight while the client authenticates again.
        raw.send(METADATA, 1, {"topics": []})
        raw.send(HANDSHAKE, 1, {"mechanism": "PLAIN"})
        assert decode_response(METADATA, 1, raw.receive()).brokers
        assert decode_response(HANDSHAKE, 1, raw.receive()).error_code is ErrorCode.none
        message = f"\0alice\0{PASSWORD}".encode()
        assert raw.request(AUTHENTICATE, 2, {"auth_bytes": message}).error_code is ErrorCode.none
        # Too soon: an ordinary request in an illegal state.
        assert raw.request(HANDSHAKE, 1, {"mechanism": "PLAIN"}).error_code is ErrorCode.illegal_sasl_state
        response = log_in(changing, "bob", "b")
        assert response.error_code is ErrorCode.sasl_authentication_failed
        assert response.error_message == "Cannot change principals during re-authentication from User.alice: User.bob"
        time.sleep(1.0)
        assert raw.request(METADATA, 1, {"topics": []}).brokers
        with pytest.raises((ConnectionClosed, ConnectionResetError)):
            other.request(METADATA, 1, {"topics": []})

"""GSSAPI with a real KDC: the clients that support it, principals by rules, and who is rejected."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import components
from tests.kafka.apache_kafka import SHORT_LIVED_FLAGS, KafkaTools, ToolFailed
from tests.kerberos_realm import REALM, KerberosRealm, kerberos_realm
from tests.node_process import NodeFailed
from tests.raw_wire import ConnectionClosed, RawConnection
from tests.wire.kerberos_node import MODULE, KerberosNode
from tests.wire.login_clients import VALUE
from tests.wire.logins import GSSAPI_CLIENTS, LoginFailed

pytestmark = pytest.mark.tier("proof")

REJECTED = "invalid credentials with SASL mechanism GSSAPI"
REPORTED = {"kafka-python": "Unable to bootstrap"}
"""Where a client does not pass on the broker's reason."""
HANDSHAKE, AUTHENTICATE = 17, 36
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def packages() -> Path:
    return components.require("the package gssapi", components.gssapi_packages)


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosRealm]:
    with kerberos_realm(tmp_path_factory.mktemp("realm")) as realm:
        realm.keytab("other/localhost")
        yield realm


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, realm: KerberosRealm, packages: Path) -> Iterator[KerberosNode]:
    node = KerberosNode(tmp_path_factory.mktemp("kerberos"), realm, packages)
    try:
        node.start()
        yield node
    finally:
        node.remove()


@pytest.fixture(scope="module")
def keytab(realm: KerberosRealm) -> Callable[[str], Path]:
    created: dict[str, Path] = {}

    def find(principal: str) -> Path:
        if principal not in created:
            created[principal] = realm.keytab(principal)
        return created[principal]

    return find


Exchange = Callable[[str, str, str], bytes]
"""As a principal, with a service, on a topic."""


@pytest.fixture
def exchange(
    client: str, node: KerberosNode, realm: KerberosRealm, keytab: Callable[[str], Path], request: pytest.FixtureRequest
) -> Exchange:
    def run(command: list[str], environment: dict[str, str], given: str = "") -> str:
        done = subprocess.run(
            command, input=given, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        if done.returncode != 0:
            raise LoginFailed(done.stdout + done.stderr)
        return done.stdout

    def java(principal: str, service: str, topic: str) -> bytes:
        tools = KafkaTools(request.getfixturevalue("apache_kafka_libs"), node.sasl_bootstrap)
        file = realm.directory / "java.properties"
        login = f'{MODULE} keyTab="{keytab(principal)}" principal="{principal}@{REALM}";'
        file.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\n"
            f"sasl.kerberos.service.name={service}\nsasl.jaas.config={login}\n"
        )
        common = ("--bootstrap-server", node.sasl_bootstrap, "--topic", topic, "--command-config", str(file))
        flags = (*SHORT_LIVED_FLAGS, f"-Djava.security.krb5.conf={realm.config}")
        try:
            tools.run("org.apache.kafka.tools.TopicCommand", *common, "--create", flags=flags)
        except ToolFailed as failed:
            raise LoginFailed(str(failed)) from None
        tools.run("org.apache.kafka.tools.ConsoleProducer", *common, standard_input=f"{VALUE.decode()}\n", flags=flags)
        reading = ("--from-beginning", "--max-messages", "1", "--timeout-ms", "20000")
        read = tools.run("org.apache.kafka.tools.consumer.ConsoleConsumer", *common, *reading, flags=flags)
        return VALUE if VALUE.decode() in read.splitlines() else read.encode()

    def kcat(principal: str, service: str, topic: str) -> bytes:
        settings = {
            "bootstrap.servers": node.sasl_bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": service,
            "sasl.kerberos.principal": principal,
            "sasl.kerberos.keytab": str(keytab(principal)),
        }
        options = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
        environment = realm.environment(KRB5CCNAME=f"FILE:{realm.directory}/kcat.cache")
        command = [request.getfixturevalue("kcat"), *options, "-t", topic, "-p", "0"]
        run([*command, "-P"], environment, f"{VALUE.decode()}\n")
        return run([*command, "-C", "-o", "beginning", "-e", "-q"], environment).strip().encode()

    def python(principal: str, service: str, topic: str) -> bytes:
        cache = realm.ticket_cache(principal, keytab(principal))
        environment = {**node.environment(), "KRB5CCNAME": cache}
        script = str(Path(__file__).with_name("kerberos_client.py"))
        return run([sys.executable, script, client, node.sasl_bootstrap, service, topic], environment).strip().encode()

    return {"java": java, "kcat": kcat}.get(client, python)


@pytest.mark.parametrize("client", GSSAPI_CLIENTS)
def test_clients_authenticate(exchange: Exchange, client: str) -> None:
    # Both become User:alice: one by each rule.
    assert exchange("alice/admin", "kafka", f"admin-{client}") == VALUE
    assert exchange("Alice", "kafka", f"lower-{client}") == VALUE


@pytest.mark.parametrize("client", GSSAPI_CLIENTS)
def test_ticket_for_another_service_is_rejected(node: KerberosNode, exchange: Exchange, client: str) -> None:
    with pytest.raises(LoginFailed) as rejected:
        exchange("alice/admin", "other", f"rejected-{client}")
    assert re.search(REPORTED.get(client, REJECTED), str(rejected.value)), rejected.value


@pytest.mark.parametrize("client", ["kcat"])
def test_principal_without_a_rule_is_rejected(node: KerberosNode, exchange: Exchange, client: str) -> None:
    with pytest.raises(LoginFailed, match=REJECTED):
        exchange("alice/guest", "kafka", "no-rule")


def test_missing_keys_stop_the_node_with_one_line(tmp_path: Path, realm: KerberosRealm, packages: Path) -> None:
    node = KerberosNode(tmp_path, realm, packages, keytab=tmp_path / "none")
    try:
        with pytest.raises(NodeFailed, match=r"error: .*GSSAPI: no keys of kafka/localhost@ODRADEK.TEST in /.*none: "):
            node.start()
    finally:
        node.remove()


def test_garbage_is_rejected(node: KerberosNode) -> None:
    for token in (b"", b"\x60", os.urandom(2000), b"\x60\x82" + os.urandom(500)):
        with RawConnection(node.sasl_port) as raw:
            assert raw.request(HANDSHAKE, 1, {"mechanism": "GSSAPI"}).mechanisms == ("GSSAPI",)
            with contextlib.suppress(ConnectionClosed):
                response = raw.request(AUTHENTICATE, 2, {"auth_bytes": token})
                assert REJECTED in (response.error_message or "")

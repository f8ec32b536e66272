"""A broker whose listeners have SASL, TLS with client certificates, and both, for tests of hostile clients."""

import base64
import itertools
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.certificates import Authority
from tests.node_process import KEEPS_OLD_RECORDS, free_ports
from tests.raw_wire import RawConnection
from tests.secured_node import log_in
from tests.wire.plain_requests import create_topic
from tests.wire.sasl_model import Credentials
from tests.wire.secured_broker import PASSWORD, PLAIN_MODULE, SecuredBroker
from tests.wire.stall_watch import StallWatch

# The controller listener requires a certificate, so that no client is a super user by its listener.
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:CN=broker;User:alice",
    "listener.name.controller.ssl.client.auth": "required",
}
SECRET = "the secret of all tokens"
NEVER_LOGGED = (PASSWORD, SECRET)
_numbers = itertools.count(1)


class HostileNode(SecuredBroker):
    """Its listeners: PLAINTEXT, CLIENTS (SASL), MUTUAL (client certificates), SECURED (SASL over TLS)."""

    def __init__(self, directory: Path, properties: dict[str, str] | None = None) -> None:
        super().__init__(directory)
        self.authority = Authority()
        (directory / "ca.pem").write_bytes(self.authority.pem)
        key_store = self.authority.issue().save(directory / "node.pem")
        self.mutual_port, self.secured_port = free_ports(2)
        self.properties |= {
            **KEEPS_OLD_RECORDS,
            "listeners": f"{self.properties['listeners']},MUTUAL://127.0.0.1:{self.mutual_port},"
            f"SECURED://127.0.0.1:{self.secured_port}",
            "listener.security.protocol.map": f"{self.properties['listener.security.protocol.map']},"
            "MUTUAL:SSL,SECURED:SASL_SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(key_store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(directory / "ca.pem"),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.secured.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.secured.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="{PASSWORD}";',
            "delegation.token.secret.key": SECRET,
            "connection.failed.authentication.delay.ms": "0",
            **(properties or {}),
        }
        if "authorizer.class.name" in self.properties:
            protocols = self.properties["listener.security.protocol.map"]
            self.properties["listener.security.protocol.map"] = protocols.replace(
                "CONTROLLER:PLAINTEXT", "CONTROLLER:SSL"
            )

    def connect(self) -> RawConnection:
        """A connection of alice."""
        return log_in(RawConnection(self.sasl_port), "alice", PASSWORD)

    def connect_to_controller(self) -> RawConnection:
        """A connection with the certificate of a node."""
        connection = RawConnection(self.controller_port)
        context = ssl.create_default_context(cafile=self.directory / "ca.pem")
        context.load_cert_chain(self.directory / "node.pem")
        connection.socket = context.wrap_socket(connection.socket, server_hostname="127.0.0.1")
        return connection

    def create_topic(self, name: str) -> None:
        with self.connect() as connection:
            assert create_topic(connection, name) is ErrorCode.none

    def create_token(self, lifetime_ms: int = -1) -> tuple[str, str]:
        """The ID of a delegation token of alice, and its password."""
        with self.connect() as connection:
            fields = {"renewers": [], "max_lifetime": lifetime_ms}
            created = connection.request(Api.CREATE_DELEGATION_TOKEN, 3, fields)
            assert created.error_code is ErrorCode.none, created
            return created.token_id, base64.b64encode(created.hmac).decode()

    def credentials(self) -> Credentials:
        return Credentials(
            passwords={"alice": PASSWORD, "bob": "b"},
            scram_passwords={"alice": PASSWORD},
            delegation_tokens=dict([self.create_token()]),
            signed_tokens=[self.token(exp=2_000_000_000 * 2), self.token(scope="a b", exp=2_000_000_000 * 2)],
        )

    def assert_nothing_leaked(self) -> None:
        """Neither tracebacks nor secrets are in the log."""
        output = self.output_file.read_text(errors="replace")
        assert "Traceback" not in output, output[output.index("Traceback") - 2000 :][:5000]
        for secret in NEVER_LOGGED:
            assert secret not in output
        assert not re.search(r"eyJ[\w-]+\.eyJ[\w-]+\.", output), "a token is in the log"


class _Listener(NamedTuple):
    port: int
    pid: int


def bystander(node: HostileNode) -> StallWatch:
    """Logs in, then writes to a topic of its own and reads."""
    topic = f"bystander-{next(_numbers)}"
    node.create_topic(topic)
    return StallWatch(_Listener(node.sasl_port, node.pid), "tests.wire.bystander", topic, "alice", PASSWORD)


@contextmanager
def hostile_node(directory: Path, properties: dict[str, str] | None = None) -> Iterator[HostileNode]:
    node = HostileNode(directory, properties)
    try:
        node.start()
        yield node
    finally:
        node.remove()

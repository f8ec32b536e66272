"""TLS and SASL: trusted and untrusted brokers, valid and invalid users."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.client.address import Address
from odradek.client.cluster import Cluster
from odradek.client.connection import milliseconds
from odradek.client.errors import NotAuthenticated
from odradek.client.security import Sasl, Security, Tls
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema
from tests.certificates import make_certificate
from tests.unit.client.scripted_broker import METADATA, ScriptedBroker

VERSIONS = {METADATA: (0, 13), ApiKey.SASL_HANDSHAKE: (0, 1), ApiKey.SASL_AUTHENTICATE: (0, 2)}
ANNA = Sasl(mechanism="PLAIN", username="anna", password="secret")


def handshake(request: Message, chosen: Schema) -> Message:
    known = request.mechanism == "PLAIN"
    code = ErrorCode.none if known else ErrorCode.unsupported_sasl_mechanism
    return chosen.new("SaslHandshakeResponse", error_code=code, mechanisms=("PLAIN",))


def authenticate(request: Message, chosen: Schema) -> Message:
    known = bytes(request.auth_bytes) == b"\0anna\0secret"
    return chosen.new(
        "SaslAuthenticateResponse",
        error_code=ErrorCode.none if known else ErrorCode.sasl_authentication_failed,
        error_message=None if known else "who are you?",
        auth_bytes=b"",
        session_lifetime=milliseconds(0),
    )


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({ApiKey.SASL_HANDSHAKE: handshake, ApiKey.SASL_AUTHENTICATE: authenticate}, VERSIONS) as made:
        made.handlers[METADATA] = made.metadata({"orders": 1})
        yield made


def query_topics(address: Address, security: Security) -> Any:
    with Cluster([address], security=security, timeout_s=5) as cluster:
        return cluster.topics(["orders"])


def test_sasl_logins_succeed_and_fail(broker: ScriptedBroker) -> None:
    assert "orders" in query_topics(broker.address, Security(sasl=ANNA))
    with pytest.raises(NotAuthenticated, match="who are you"):
        query_topics(broker.address, Security(sasl=Sasl(mechanism="PLAIN", username="anna", password="guess")))
    with pytest.raises(NotAuthenticated, match="does not support SCRAM-SHA-256, only PLAIN"):
        query_topics(broker.address, Security(sasl=Sasl(mechanism="SCRAM-SHA-256", username="anna", password="secret")))


class TlsFront:
    """A TLS proxy in front of a plain server."""

    def __init__(self, behind: Address, certificate: Path) -> None:
        self._behind = behind
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(certificate)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self._listener.getsockname())
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                plain, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        with (
            suppress(OSError),
            self._context.wrap_socket(plain, server_side=True) as front,
            socket.create_connection(self._behind) as back,
        ):
            # The client sends one request at a time.
            while request := front.recv(65536):
                back.sendall(request)
                front.sendall(back.recv(65536))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"))


def test_tls_accepts_only_trusted_certificates(broker: ScriptedBroker, certificate: Path) -> None:
    front = TlsFront(broker.address, certificate)
    try:
        text = certificate.read_text()
        only_certificate = text[text.index("-----BEGIN CERTIFICATE") :]
        for tls in (Tls(authorities_file=str(certificate)), Tls(authorities=only_certificate, own=text)):
            assert "orders" in query_topics(front.address, Security(tls=tls, sasl=ANNA))
        with pytest.raises(NotAuthenticated, match="is not trusted"):
            query_topics(front.address, Security(tls=Tls()))
    finally:
        front.close()


def test_secrets_are_not_in_the_repr() -> None:
    assert "secret" not in repr(Security(sasl=ANNA, tls=Tls(own="secret", key_password="secret")))

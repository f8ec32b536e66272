"""Which client can authenticate in which way, and the credentials that a secured node gives to each of them."""

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from odradek.client.address import parse_bootstrap
from odradek.client.cluster import Cluster
from odradek.client.delegation_tokens import DelegationTokens
from odradek.client.security import Sasl, Security, Tls
from tests.certificates import Authority, Issued
from tests.node_process import free_ports
from tests.wire.plain_requests import until
from tests.wire.secured_broker import OAUTH_MODULE, PASSWORD, PLAIN_MODULE, SCRAM_MODULE, SecuredBroker

PLAIN, SCRAM_256, SCRAM_512, OAUTH = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"
TOKEN, CERTIFICATE = "delegation token", "client certificate"
KINDS: Final = (PLAIN, SCRAM_256, SCRAM_512, OAUTH, TOKEN, CERTIFICATE)

JAVA, CONFLUENT, AIOKAFKA, KAFKA_PYTHON, KAFKAJS, KCAT = (
    *("java", "confluent-kafka", "aiokafka", "kafka-python", "kafkajs", "kcat"),
)
ODRADEK: Final = "odradek"
CLIENTS: Final = (JAVA, CONFLUENT, AIOKAFKA, KAFKA_PYTHON, KAFKAJS, KCAT, ODRADEK)

UNSUPPORTED: Final = {
    # Their SCRAM does not send the extension tokenauth.
    **{(client, TOKEN): "no `tokenauth`" for client in (CONFLUENT, AIOKAFKA, KAFKA_PYTHON, KAFKAJS, KCAT)},
    # It has no callback for tokens, and Debian builds librdkafka without its OIDC client.
    (KCAT, OAUTH): "unsigned tokens only",
    # Debian's librdkafka 2.0.2 repeats the nonce: Apache Kafka 4.3.1 rejects it too.
    (KCAT, SCRAM_256): "librdkafka < 2.6",
    (KCAT, SCRAM_512): "librdkafka < 2.6",
}
"""What a client cannot do, and why. Each entry is tested too: the broker rejects what the client sends."""

GSSAPI_CLIENTS: Final = (JAVA, KCAT, AIOKAFKA, KAFKA_PYTHON)
"""`test_gssapi.py` has them, with a KDC."""
WITHOUT_GSSAPI: Final = {
    CONFLUENT: "not in its wheels",
    KAFKAJS: "no Kerberos",
    ODRADEK: "not supported yet",
}

STORE_PASSWORD: Final = "changeit"
LOGIN_HANDLER: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


class LoginFailed(Exception):
    """The client reports that it cannot authenticate. The text is its own."""


@dataclass(frozen=True)
class Login:
    kind: str
    bootstrap: str
    directory: Path
    """With the files of certificates and tokens."""
    username: str = ""
    password: str = ""
    token: str = ""
    certificate: str = ""
    """The stem of the files NAME.pem and NAME.p12."""
    is_valid: bool = True

    @property
    def mechanism(self) -> str:
        return SCRAM_512 if self.kind == TOKEN else self.kind

    @property
    def protocol(self) -> str:
        return "SSL" if self.kind == CERTIFICATE else "SASL_SSL"

    @property
    def authorities(self) -> Path:
        return self.directory / "ca.pem"

    @property
    def own(self) -> Path:
        return self.directory / f"{self.certificate}.pem"

    def properties(self, *, pkcs12: bool = False) -> dict[str, str]:
        """Client properties as Kafka's tools read them."""
        suffix, kind = ("p12", "PKCS12") if pkcs12 else ("pem", "PEM")
        found = {
            "security.protocol": self.protocol,
            "ssl.truststore.type": kind,
            "ssl.truststore.location": str(self.directory / f"ca.{suffix}"),
        }
        if pkcs12:
            found["ssl.truststore.password"] = STORE_PASSWORD
        if self.kind == CERTIFICATE:
            found |= {
                "ssl.keystore.type": kind,
                "ssl.keystore.location": str(self.directory / f"{self.certificate}.{suffix}"),
            }
            return found | ({"ssl.keystore.password": STORE_PASSWORD} if pkcs12 else {})
        return found | {"sasl.mechanism": self.mechanism, **self._sasl_properties()}

    def _sasl_properties(self) -> dict[str, str]:
        if self.kind == OAUTH:
            return {
                "sasl.jaas.config": f"{OAUTH_MODULE} required;",
                "sasl.oauthbearer.token.endpoint.url": self.token_file.as_uri(),
                "sasl.login.callback.handler.class": LOGIN_HANDLER,
            }
        module = PLAIN_MODULE if self.kind == PLAIN else SCRAM_MODULE
        token = ' tokenauth="true"' if self.kind == TOKEN else ""
        login = f'{module} required username="{self.username}" password="{self.password}"{token};'
        return {"sasl.jaas.config": login}

    @property
    def token_file(self) -> Path:
        """Written for this token."""
        file = self.directory / f"token-{abs(hash(self.token))}"
        file.write_text(self.token)
        return file

    @property
    def java_flags(self) -> list[str]:
        """Kafka's clients read tokens only from places that the JVM's properties allow."""
        if self.kind != OAUTH:
            return []
        uri = self.token_file.as_uri()
        return [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{kind}={uri}" for kind in ("urls", "files")]

    def write_properties(self, file: Path, *, pkcs12: bool = False) -> Path:
        file.write_text("".join(f"{name}={value}\n" for name, value in self.properties(pkcs12=pkcs12).items()))
        return file


class LoginNode:
    """A broker with a SASL_SSL listener for all mechanisms, and one that requires the certificate of a client."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority()
        (directory / "ca.pem").write_bytes(self.authority.pem)
        (directory / "ca.p12").write_bytes(_trust_store(self.authority.pem))
        for name, authority in (("client", self.authority), ("stranger", Authority("Other CA"))):
            issued = authority.issue(name)
            issued.save(directory / f"{name}.pem")
            (directory / f"{name}.p12").write_bytes(_key_store(issued))
        (self.mutual_port,) = free_ports(1)
        self.broker = SecuredBroker(
            directory,
            protocol="SASL_SSL",
            properties={
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.authority.issue().save(directory / "node.pem")),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(directory / "ca.pem"),
                "listener.name.mutual.ssl.client.auth": "required",
                "delegation.token.secret.key": "the secret of the cluster",
            },
        )
        properties = self.broker.properties
        properties["listeners"] += f",MUTUAL://127.0.0.1:{self.mutual_port}"
        properties["listener.security.protocol.map"] += ",MUTUAL:SSL"
        self._token: tuple[str, str] | None = None

    def login(self, kind: str) -> Login:
        """Valid credentials."""
        login = Login(kind, self.broker.sasl_bootstrap, self.directory)
        if kind == CERTIFICATE:
            return replace(login, bootstrap=f"127.0.0.1:{self.mutual_port}", certificate="client")
        if kind == OAUTH:
            return replace(login, token=self.broker.token())
        username, password = self._delegation_token() if kind == TOKEN else ("alice", PASSWORD)
        return replace(login, username=username, password=password)

    def wrong_login(self, kind: str) -> Login:
        login = self.login(kind)
        if kind == CERTIFICATE:
            return replace(login, certificate="stranger", is_valid=False)
        return replace(login, password="wrong", token=self.broker.token(aud="elsewhere"), is_valid=False)

    def _delegation_token(self) -> tuple[str, str]:
        if self._token is None:
            tls = Tls(authorities_file=str(self.directory / "ca.pem"))
            alice = Security(tls=tls, sasl=Sasl(mechanism=PLAIN, username="alice", password=PASSWORD))
            with Cluster(parse_bootstrap(self.broker.sasl_bootstrap), security=alice) as cluster:
                tokens = DelegationTokens(cluster)
                created = tokens.create()
                # The broker knows it when the record of the controller has arrived.
                until(lambda: any(one.token_id == created.token_id for one in tokens.list()), what="the token")
            self._token = created.token_id, b64encode(created.hmac).decode()
        return self._token


@contextmanager
def login_node(directory: Path) -> Iterator[LoginNode]:
    node = LoginNode(directory)
    try:
        node.broker.start()
        yield node
    finally:
        node.broker.remove()


def _trust_store(pem: bytes) -> bytes:
    certificate = pkcs12.PKCS12Certificate(x509.load_pem_x509_certificate(pem), b"ca")
    return pkcs12.serialize_java_truststore([certificate], _ENCRYPTION)


def _key_store(issued: Issued) -> bytes:
    key = serialization.load_pem_private_key(issued.key, None)
    certificate = x509.load_pem_x509_certificate(issued.certificate)
    return pkcs12.serialize_key_and_certificates(b"own", key, certificate, None, _ENCRYPTION)  # type: ignore[arg-type]


_ENCRYPTION: Final = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())

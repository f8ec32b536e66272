"""Key stores and trust stores in each format, and one line for each way in which they are unusable."""

import hashlib
import ssl
import struct
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from odradek.host.key_stores.files import read_file
from odradek.host.key_stores.jks import MAGIC
from odradek.host.key_stores.pem import read_pem_keys
from odradek.host.key_stores.reading import read_key_store, read_trust_store
from odradek.host.key_stores.store import KeyStoreError, Store
from odradek.host.tls_contexts import TlsRules, handshake_problem, new_client_context, new_server_context
from tests.certificates import Authority, Issued

PASSWORD = "changeit"
AUTHORITY = Authority()
ISSUED = AUTHORITY.issue("node", uses_rsa=True)
RULES = TlsRules(versions=("TLSv1.2", "TLSv1.3"), ciphers=None)


def key_of(issued: Issued) -> serialization.pkcs12.PKCS12PrivateKeyTypes:
    return serialization.load_pem_private_key(issued.key, None)  # type: ignore[return-value]


def encrypted(issued: Issued, password: str = PASSWORD) -> bytes:
    key = key_of(issued).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()),
    )
    return key + issued.certificate


def as_pkcs12(issued: Issued | None = ISSUED, password: str = PASSWORD) -> bytes:
    ca = x509.load_pem_x509_certificate(AUTHORITY.pem)
    if issued is None:
        return pkcs12.serialize_java_truststore(
            [pkcs12.PKCS12Certificate(ca, b"ca")], serialization.BestAvailableEncryption(password.encode())
        )
    return pkcs12.serialize_key_and_certificates(
        b"node",
        key_of(issued),
        x509.load_pem_x509_certificate(issued.certificate),
        [ca],
        serialization.BestAvailableEncryption(password.encode()),
    )


def as_jks(issued: Issued | None = ISSUED, password: str = PASSWORD, key_password: str | None = None) -> bytes:
    """Written by hand: keytool writes the same, as tests/kafka shows."""
    ca = ssl.PEM_cert_to_DER_cert(AUTHORITY.pem.decode())
    body = MAGIC + struct.pack(">II", 2, 1)
    if issued is None:
        body += struct.pack(">I", 2) + _text("ca") + bytes(8) + _certificate(ca)
    else:
        protected = _protect(_der(issued), key_password or password)
        body += struct.pack(">I", 1) + _text("node") + bytes(8) + struct.pack(">I", len(protected)) + protected
        body += struct.pack(">I", 2) + _certificate(issued.der) + _certificate(ca)
    return body + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def _der(issued: Issued) -> bytes:
    return key_of(issued).private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _certificate(der: bytes) -> bytes:
    return _text("X.509") + struct.pack(">I", len(der)) + der


def _protect(key: bytes, password: str) -> bytes:
    secret, salt = password.encode("utf-16-be"), b"s" * 20
    stream, block = b"", salt
    while len(stream) < len(key):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    content = salt + bytes(a ^ b for a, b in zip(key, stream, strict=False)) + hashlib.sha1(secret + key).digest()
    octets = b"\x04\x82" + struct.pack(">H", len(content)) + content
    algorithm = bytes.fromhex("300e060a2b060104012a021101010500")
    return b"\x30\x82" + struct.pack(">H", len(algorithm + octets)) + algorithm + octets


def expect_usable(keys: Store, trust: Store) -> None:
    server = new_server_context(RULES, keys, trust, "required")
    client = new_client_context(RULES, keys, trust, checks_host=False)
    assert handshake_problem(server, client) is None


@pytest.mark.parametrize(
    ("data", "password", "key_password"),
    [
        (ISSUED.pem, None, None),
        (AUTHORITY.issue("node").pem, None, None),
        (encrypted(ISSUED), None, PASSWORD),
        (b"Bag Attributes\n friendlyName: x\n" + ISSUED.pem, None, None),
        (as_pkcs12(), PASSWORD, None),
        (as_jks(), PASSWORD, None),
        (as_jks(key_password="other"), PASSWORD, "other"),
    ],
    ids=["pem", "pem-ec", "encrypted-pem", "pem-with-text", "pkcs12", "jks", "jks-key-password"],
)
@pytest.mark.parametrize("trust", [AUTHORITY.pem, as_pkcs12(None), as_jks(None)], ids=["pem", "pkcs12", "jks"])
def test_formats(data: bytes, password: str | None, key_password: str | None, trust: bytes) -> None:
    keys = read_key_store(data, password=password, key_password=key_password)
    expect_usable(keys, read_trust_store(trust, password=None if trust == AUTHORITY.pem else PASSWORD))


def test_trust_store_in_jks_needs_no_password() -> None:
    assert read_trust_store(as_jks(None), password=None).anchors


def test_chains_are_complete() -> None:
    for data in (as_pkcs12(), as_jks()):
        (entry,) = read_key_store(data, password=PASSWORD, key_password=None).keys
        assert entry.alias == "node"
        assert entry.chain == (ISSUED.der, ssl.PEM_cert_to_DER_cert(AUTHORITY.pem.decode()))


@pytest.mark.parametrize(
    ("data", "password", "key_password", "message"),
    [
        (encrypted(ISSUED), None, None, "the private key is encrypted; set ssl.key.password"),
        (encrypted(ISSUED), None, "wrong", "the private key cannot be decrypted; correct ssl.key.password"),
        (ISSUED.pem, None, "any", "the private key is not encrypted; remove ssl.key.password"),
        (AUTHORITY.pem, None, None, "there is no private key"),
        (ISSUED.key, None, None, "there is no certificate"),
        (ISSUED.pem + ISSUED.key, None, None, "there are 2 private keys, where one is expected"),
        (as_pkcs12(), "wrong", None, "it is damaged, or the password is wrong"),
        (as_pkcs12()[:500], PASSWORD, None, "it is damaged, or the password is wrong"),
        (as_pkcs12(None), PASSWORD, None, "there is no private key"),
        (as_jks(), "wrong", None, "it is damaged, or the password is wrong"),
        (as_jks(key_password="other"), PASSWORD, None, "the key node cannot be decrypted; correct ssl.key.password"),
        (as_jks(None), PASSWORD, None, "there is no private key"),
        (b"\xce\xce\xce\xce" + bytes(50), PASSWORD, None, "keytool -importkeystore"),
        (b"hello", PASSWORD, None, "it is neither PEM, PKCS12 nor JKS"),
        (b"", PASSWORD, None, "it is neither PEM, PKCS12 nor JKS"),
    ],
)
def test_unusable_key_stores(data: bytes, password: str | None, key_password: str | None, message: str) -> None:
    with pytest.raises(KeyStoreError) as raised:
        read_key_store(data, password=password, key_password=key_password)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert PASSWORD not in str(raised.value)


def test_damaged_jks_without_password() -> None:
    whole = as_jks()
    for size in range(0, len(whole), 50):
        with pytest.raises(KeyStoreError):
            read_trust_store(whole[:size] if size > 4 else MAGIC, password=None)


def test_key_of_another_certificate() -> None:
    keys = read_pem_keys(AUTHORITY.issue("other").certificate, ISSUED.key, key_password=None)
    with pytest.raises(KeyStoreError, match="the private key does not belong to the certificate"):
        new_server_context(RULES, keys, None, "none")


def test_keys_do_not_appear_in_the_repr() -> None:
    store = read_key_store(ISSUED.pem, password=None, key_password=None)
    assert repr(_der(ISSUED))[10:60] not in repr(store)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(KeyStoreError, match=r"cannot read .*/k\.pem: No such file or directory"):
        read_file(str(tmp_path / "k.pem"))


def test_versions_and_ciphers() -> None:
    keys = read_key_store(ISSUED.pem, password=None, key_password=None)
    trust = read_trust_store(AUTHORITY.pem, password=None)
    rules = TlsRules(versions=("TLSv1.2",), ciphers="ECDHE-RSA-AES128-GCM-SHA256")
    server = new_server_context(rules, keys, None, "none")
    assert handshake_problem(server, new_client_context(RULES, None, trust, checks_host=False)) is None
    newer = TlsRules(versions=("TLSv1.3",), ciphers=None)
    assert handshake_problem(server, new_client_context(newer, None, trust, checks_host=False)) is not None
    with pytest.raises(KeyStoreError, match="OpenSSL knows none of the cipher suites NO-SUCH"):
        new_server_context(TlsRules(versions=("TLSv1.2",), ciphers="NO-SUCH"), keys, None, "none")

"""Certificates that `odradek cert` and `odradek up --secure` create, and what clients report about them."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, NoEncryption, pkcs12

from odradek.local.certificate_checks import Finding, check_certificate
from odradek.local.certificate_files import read_authority, read_certificates
from odradek.local.certificates import (
    CertificateError,
    Issued,
    KeyType,
    Usage,
    create_ca,
    issue,
    names_of,
    parse_host,
    parse_name,
    purposes_of,
    renew,
)
from odradek.local.private_files import write_private
from odradek.text.errors import UserError

NOW = datetime.now(UTC).replace(microsecond=0)
HOSTS = [parse_host(one) for one in ("localhost", "127.0.0.1", "::1", "*.example.org")]


@pytest.fixture(scope="module")
def ca() -> Issued:
    return create_ca(parse_name("Test CA"), NOW)


@pytest.fixture(scope="module")
def broker(ca: Issued) -> Issued:
    return issue(ca, parse_name("CN=broker,O=Example"), HOSTS, Usage.BOTH, NOW)


def handshake(directory: Path, server: Issued, ca: Issued, host: str) -> str:
    """What OpenSSL reports about the server's certificate; empty: the handshake succeeds."""
    (directory / "server.pem").write_bytes(server.key_store())
    of_server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    of_server.load_cert_chain(directory / "server.pem")
    of_client = ssl.create_default_context(cadata=ca.certificate_pem().decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = of_client.wrap_bio(to_client, to_server, server_hostname=host)
    peer = of_server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, peer):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLCertVerificationError as error:
                return str(error.verify_message)
    assert client.cipher() is not None
    return ""


def findings(
    server: Issued, ca: Issued, host: str | None = "localhost", usage: Usage = Usage.SERVER, now: datetime = NOW
) -> list[Finding]:
    return check_certificate([server.certificate], [ca.certificate], host, usage, now)


@pytest.mark.parametrize("kind", KeyType)
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "broker.example.org"])
def test_openssl_accepts_an_issued_certificate(tmp_path: Path, kind: KeyType, host: str) -> None:
    ca = create_ca(parse_name("Test CA"), NOW, kind=kind)
    server = issue(ca, parse_name("broker"), HOSTS, Usage.BOTH, NOW, kind=kind)
    assert handshake(tmp_path, server, ca, host) == ""
    assert findings(server, ca, host) == []


@pytest.mark.parametrize("host", ["other", "127.0.0.2", "example.org", "a.b.example.org"])
def test_a_wrong_host_is_reported_as_openssl_reports_it(tmp_path: Path, ca: Issued, broker: Issued, host: str) -> None:
    (finding,) = findings(broker, ca, host)
    assert handshake(tmp_path, broker, ca, host).rstrip(".") == finding.openssl
    assert f"--host {host}" in finding.problem


@pytest.mark.parametrize(
    ("name", "java"),
    [("Other CA", "PKIX path building failed"), ("Test CA", "Path does not chain with any of the trust anchors")],
)
def test_an_unknown_authority_is_reported(tmp_path: Path, broker: Issued, name: str, java: str) -> None:
    other = create_ca(parse_name(name), NOW)
    (finding,) = findings(broker, other)
    assert (
        handshake(tmp_path, broker, other, "localhost") == finding.openssl == "unable to get local issuer certificate"
    )
    assert java in finding.java


def test_an_expired_certificate_is_reported(tmp_path: Path, ca: Issued) -> None:
    old = issue(ca, parse_name("broker"), HOSTS, Usage.BOTH, NOW - timedelta(days=9), days=2)
    (finding,) = findings(old, ca)
    assert handshake(tmp_path, old, ca, "localhost") == finding.openssl == "certificate has expired"
    later = issue(ca, parse_name("broker"), HOSTS, Usage.BOTH, NOW + timedelta(days=9))
    (early,) = findings(later, ca)
    assert early.openssl == "certificate is not yet valid"


def test_a_certificate_of_a_client_is_no_server(tmp_path: Path, ca: Issued) -> None:
    client = issue(ca, parse_name("ann"), HOSTS, Usage.CLIENT, NOW)
    assert findings(client, ca, None, Usage.CLIENT) == []
    (finding,) = findings(client, ca)
    assert handshake(tmp_path, client, ca, "localhost") == finding.openssl


def test_a_chain_leads_to_the_authority(ca: Issued, broker: Issued) -> None:
    other = create_ca(parse_name("Other"), NOW)
    chain = [broker.certificate, ca.certificate]
    assert check_certificate(chain, [ca.certificate], "localhost", Usage.SERVER, NOW) == []
    (finding,) = check_certificate(chain, [other.certificate], "localhost", Usage.SERVER, NOW)
    assert finding.openssl == "self-signed certificate"


def test_a_certificate_does_not_outlive_its_authority(ca: Issued) -> None:
    issued = issue(ca, parse_name("broker"), HOSTS, Usage.BOTH, NOW, days=99_999)
    assert issued.certificate.not_valid_after_utc == ca.certificate.not_valid_after_utc
    with pytest.raises(CertificateError, match="expired"):
        issue(ca, parse_name("broker"), HOSTS, Usage.BOTH, NOW + timedelta(days=4000))
    with pytest.raises(CertificateError, match="not a certificate authority"):
        issue(issued, parse_name("broker"), HOSTS, Usage.BOTH, NOW)


def test_renewal_keeps_subject_names_and_usage(ca: Issued, broker: Issued) -> None:
    renewed = renew(ca, broker.certificate, NOW + timedelta(days=300))
    assert renewed.certificate.subject == broker.certificate.subject
    assert names_of(renewed.certificate) == names_of(broker.certificate) == HOSTS
    assert purposes_of(renewed.certificate) == purposes_of(broker.certificate)
    assert renewed.certificate.public_key() != broker.certificate.public_key()
    assert findings(renewed, ca, now=NOW + timedelta(days=600)) == []
    with pytest.raises(CertificateError):
        renew(ca, ca.certificate, NOW)


def test_names() -> None:
    assert parse_name("broker").rfc4514_string() == "CN=broker"
    assert parse_name("CN=broker,O=Example").rfc4514_string() == "CN=broker,O=Example"
    assert parse_host("2001:DB8::1").value.compressed == "2001:db8::1"
    for text in ("", "a b", "host:9092", "https://host", "ann@host"):
        with pytest.raises(CertificateError):
            parse_host(text)
    with pytest.raises(CertificateError):
        parse_name("CN=")
    with pytest.raises(CertificateError):
        issue(create_ca(parse_name("x"), NOW), parse_name("x"), [], Usage.BOTH, NOW)


def test_the_private_key_is_no_part_of_the_repr(broker: Issued) -> None:
    assert "PRIVATE" not in repr(broker) and "key=" not in repr(broker)


def test_key_stores_are_read_as_pem_and_pkcs12(tmp_path: Path, ca: Issued, broker: Issued) -> None:
    (tmp_path / "broker.pem").write_bytes(broker.key_store([ca.certificate]))
    encryption = BestAvailableEncryption(b"secret")
    (tmp_path / "broker.jks").write_bytes(
        pkcs12.serialize_key_and_certificates(b"broker", broker.key, broker.certificate, [ca.certificate], encryption)
    )
    for name, password in (("broker.pem", None), ("broker.jks", b"secret")):
        found = read_certificates(tmp_path / name, password)
        assert list(found.certificates) == [broker.certificate, ca.certificate]
        assert found.key is not None
    (tmp_path / "open.p12").write_bytes(
        pkcs12.serialize_key_and_certificates(None, broker.key, broker.certificate, None, NoEncryption())
    )
    assert read_certificates(tmp_path / "open.p12").certificates == [broker.certificate]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"hello", "it is neither PEM, PKCS12 nor JKS"),
        (b"-----BEGIN CERTIFICATE-----\nhidden\n-----END CERTIFICATE-----\n", "invalid PEM"),
        (b"-----BEGIN PRIVATE KEY-----\nhidden\n-----END PRIVATE KEY-----\n", "invalid PEM"),
        (b"\x30hidden", "Give its password with --password-file"),
        (b"\xfe\xed\xfe\xed\x00\x00", "it is damaged"),
        (b"\xce\xce\xce\xce\x00\x00", "keytool -importkeystore"),
    ],
)
def test_unreadable_files_are_errors_of_one_line(tmp_path: Path, content: bytes, expected: str) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(UserError) as caught:
        read_certificates(tmp_path / "file")
    assert expected in str(caught.value)
    assert "hidden" not in str(caught.value) and "\n" not in str(caught.value)


def test_an_authority_is_read_from_one_file_or_two(tmp_path: Path, ca: Issued, broker: Issued) -> None:
    (tmp_path / "both.pem").write_bytes(ca.key_store())
    (tmp_path / "ca.pem").write_bytes(ca.certificate_pem())
    (tmp_path / "ca.key").write_bytes(ca.key_pem())
    (tmp_path / "other.key").write_bytes(broker.key_pem())
    assert read_authority(tmp_path / "both.pem").certificate == ca.certificate
    assert read_authority(tmp_path / "ca.pem", tmp_path / "ca.key").certificate == ca.certificate
    with pytest.raises(UserError, match="contains no private key"):
        read_authority(tmp_path / "ca.pem")
    with pytest.raises(UserError, match="does not belong"):
        read_authority(tmp_path / "ca.pem", tmp_path / "other.key")


def test_private_files_have_mode_600_and_are_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "key"
    write_private(file, "first")
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UserError, match="already exists"):
        write_private(file, "second")
    assert file.read_text() == "first"
    file.chmod(0o644)
    write_private(file, "second", replace=True)
    assert file.read_text() == "second"
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [file]

"""Certificates for test servers, created by openssl or in memory."""

import ipaddress
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from tests import components


def make_certificate(directory: Path) -> Path:
    """Create a key and a self-signed certificate for 127.0.0.1 and return the file with both."""
    openssl = components.require("openssl", lambda: components.find_program("openssl"))
    key, made, both = directory / "key.pem", directory / "certificate.pem", directory / "both.pem"
    kind = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    name = "-subj /CN=broker -addext subjectAltName=IP:127.0.0.1"
    command = [openssl, "req", "-x509", *kind.split(), *name.split(), "-keyout", str(key), "-out", str(made)]
    subprocess.run(command, check=True, capture_output=True)
    both.write_text(key.read_text() + made.read_text())
    return both


@dataclass(frozen=True)
class Issued:
    """A key and its certificate, as PEM."""

    key: bytes
    certificate: bytes
    chain: bytes = b""
    """The certificates of its issuers but the root."""

    @property
    def pem(self) -> bytes:
        return self.key + self.certificate + self.chain

    @property
    def der(self) -> bytes:
        return x509.load_pem_x509_certificate(self.certificate).public_bytes(serialization.Encoding.DER)

    def save(self, path: Path) -> Path:
        """Replace the file as a whole, as tools that renew certificates do."""
        new = path.with_suffix(".new")
        new.write_bytes(self.pem)
        new.replace(path)
        return path


class Authority:
    """A certificate authority that exists only in the memory of a test."""

    def __init__(self, name: str = "Test CA") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = common_name(name)
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=3650))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        )
        self._certificate = builder.sign(self._key, hashes.SHA256())
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(
        self,
        subject: x509.Name | str = "broker",
        *,
        hosts: Sequence[str] = ("127.0.0.1", "localhost"),
        days: float = 365,
        uses_rsa: bool = False,
    ) -> Issued:
        """`days` may be negative: then the certificate has expired."""
        key = rsa.generate_private_key(65537, 2048) if uses_rsa else ec.generate_private_key(ec.SECP256R1())
        end = datetime.now(UTC) + timedelta(days=days)
        builder = (
            x509.CertificateBuilder()
            .subject_name(common_name(subject) if isinstance(subject, str) else subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(end, datetime.now(UTC)) - timedelta(days=1))
            .not_valid_after(end)
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(one) for one in hosts]), False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Issued(
            key=key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
            certificate=certificate.public_bytes(serialization.Encoding.PEM),
        )


def common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)

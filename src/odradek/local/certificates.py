"""Creates certificate authorities and certificates for brokers and clients. No I/O; the caller passes the time."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, TypeAlias

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_DAYS: Final = 3650
# Some clients reject certificates that are valid for longer.
LEAF_DAYS: Final = 397
_RSA_BITS: Final = 2048
# Clocks of clients may be slow.
_CLOCK_SKEW: Final = timedelta(minutes=5)

PrivateKey: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class CertificateError(Exception):
    """A complete sentence that says what to do."""


class KeyType(StrEnum):
    EC = "ec"
    RSA = "rsa"


class Usage(StrEnum):
    SERVER = "server"
    CLIENT = "client"
    BOTH = "both"


_PURPOSES: Final = {
    Usage.SERVER: (ExtendedKeyUsageOID.SERVER_AUTH,),
    Usage.CLIENT: (ExtendedKeyUsageOID.CLIENT_AUTH,),
    # A broker is a client of other brokers.
    Usage.BOTH: (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH),
}


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate with its private key, which is no part of the repr."""

    certificate: x509.Certificate
    key: PrivateKey = field(repr=False)

    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    def key_pem(self) -> bytes:
        """In PKCS #8, the only form that Java reads."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def key_store(self, chain: Sequence[x509.Certificate] = ()) -> bytes:
        """The content of a key store of type PEM: the key, the certificate, and intermediate authorities."""
        return self.key_pem() + self.certificate_pem() + b"".join(one.public_bytes(Encoding.PEM) for one in chain)


def parse_name(text: str) -> x509.Name:
    """Parse `CN=broker,O=Example`, or take the text as common name. Raises CertificateError."""
    try:
        if "=" in text:
            return x509.Name.from_rfc4514_string(text)
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
    except (ValueError, TypeError):
        raise CertificateError(f"{text!r} is not a distinguished name. Example: CN=broker-1,O=Example.") from None


def parse_host(text: str) -> x509.GeneralName:
    """An IP address or a DNS name, for a certificate's subject alternative names. Raises CertificateError."""
    try:
        return x509.IPAddress(ipaddress.ip_address(text.strip("[]")))
    except ValueError:
        pass
    try:
        if not text or any(character.isspace() or character in ":/@," for character in text):
            raise ValueError
        return x509.DNSName(text.encode("idna").decode("ascii") if not text.isascii() else text)
    except ValueError:
        raise CertificateError(f"{text!r} is neither a host name nor an IP address.") from None


def new_key(kind: KeyType) -> PrivateKey:
    if kind is KeyType.RSA:
        return rsa.generate_private_key(65537, _RSA_BITS)
    return ec.generate_private_key(ec.SECP256R1())


def create_ca(name: x509.Name, now: datetime, *, days: int = CA_DAYS, kind: KeyType = KeyType.EC) -> Issued:
    """Create a self-signed certificate authority, which may issue certificates but no further authorities."""
    key = new_key(kind)
    public = key.public_key()
    identifier = x509.SubjectKeyIdentifier.from_public_key(public)
    builder = (
        _builder(name, name, now, days)
        .public_key(public)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(public, is_ca=True), critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
    )
    return Issued(builder.sign(key, SHA256()), key)


def issue(
    ca: Issued,
    name: x509.Name,
    hosts: Sequence[x509.GeneralName],
    usage: Usage,
    now: datetime,
    *,
    days: int = LEAF_DAYS,
    kind: KeyType = KeyType.EC,
) -> Issued:
    """Issue a certificate with a new key. It does not outlive its authority. Raises CertificateError."""
    if usage is not Usage.CLIENT and not hosts:
        raise CertificateError("A broker's certificate needs the host names and addresses that clients connect to.")
    return _sign(ca, name, hosts, _PURPOSES[usage], now, days, new_key(kind))


def renew(ca: Issued, old: x509.Certificate, now: datetime, *, days: int = LEAF_DAYS) -> Issued:
    """Issue a certificate with a new key and with the subject, names and purposes of `old`. Raises CertificateError."""
    if is_authority(old):
        raise CertificateError("A certificate authority cannot be renewed: create a new one with `odradek cert ca`.")
    purposes = purposes_of(old) or _PURPOSES[Usage.BOTH]
    kind = KeyType.RSA if isinstance(old.public_key(), rsa.RSAPublicKey) else KeyType.EC
    return _sign(ca, old.subject, names_of(old), purposes, now, days, new_key(kind))


def _sign(
    ca: Issued,
    name: x509.Name,
    hosts: Sequence[x509.GeneralName],
    purposes: Sequence[x509.ObjectIdentifier],
    now: datetime,
    days: int,
    key: PrivateKey,
) -> Issued:
    if not is_authority(ca.certificate):
        raise CertificateError(f"{ca.certificate.subject.rfc4514_string()!r} is not a certificate authority.")
    if ca.certificate.not_valid_after_utc <= now:
        raise CertificateError("The certificate authority has expired. Create a new one with `odradek cert ca`.")
    public = key.public_key()
    identifier = x509.SubjectKeyIdentifier.from_public_key(ca.key.public_key())
    builder = (
        _builder(name, ca.certificate.subject, now, days, end=ca.certificate.not_valid_after_utc)
        .public_key(public)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(public, is_ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
    )
    if hosts:
        # Distinct, in their order: one name may be both the host name and localhost.
        builder = builder.add_extension(x509.SubjectAlternativeName(dict.fromkeys(hosts)), critical=False)
    return Issued(builder.sign(ca.key, SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, now: datetime, days: int, end: datetime | None = None
) -> x509.CertificateBuilder:
    last = now + timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(last if end is None else min(last, end))
    )


def _key_usage(public: object, *, is_ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        content_commitment=False,
        # For the key exchange of TLS 1.2 without Diffie-Hellman.
        key_encipherment=isinstance(public, rsa.RSAPublicKey) and not is_ca,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def names_of(certificate: x509.Certificate) -> list[x509.GeneralName]:
    """The subject alternative names."""
    try:
        return list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []


def purposes_of(certificate: x509.Certificate) -> list[x509.ObjectIdentifier]:
    """The extended key usages; none: the certificate may be used for every purpose."""
    try:
        return list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        return []


def is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True

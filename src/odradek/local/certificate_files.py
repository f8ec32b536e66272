"""Reads certificates and private keys from PEM, PKCS #12 and JKS. The format is detected from the content."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_der_private_key, load_pem_private_key

from odradek.host.key_stores.reading import read_key_store, read_trust_store
from odradek.host.key_stores.store import KeyStoreError
from odradek.local.certificates import Issued, PrivateKey
from odradek.text.errors import UserError

_BYTES_MAX: Final = 16 << 20


class CertificateFile(NamedTuple):
    certificates: Sequence[x509.Certificate]
    """In the order of the file; the certificate of the private key is the first."""
    key: PrivateKey | None


def read_certificates(path: Path, password: bytes | None = None) -> CertificateFile:
    """Raises UserError, whose message contains no part of the content, or OSError."""
    with path.open("rb") as file:
        content = file.read(_BYTES_MAX + 1)
    if len(content) > _BYTES_MAX:
        raise UserError(f"{str(path)!r} is too large for certificates. Check the path.")
    if b"-----BEGIN " not in content:
        return _read_binary(path, content, password)
    return _read_pem(path, content, password)


def read_authority(certificate: Path, key: Path | None = None) -> Issued:
    """The authority's certificate and its key, from one file or from two."""
    found = read_certificates(certificate)
    private_key = found.key if key is None else read_certificates(key).key
    if private_key is None:
        where = certificate if key is None else key
        raise UserError(f"{str(where)!r} contains no private key. Name the file of the authority's key with --ca-key.")
    for one in found.certificates:
        if one.public_key() == private_key.public_key():
            return Issued(one, private_key)
    raise UserError(f"The private key does not belong to a certificate in {str(certificate)!r}.")


def _read_pem(path: Path, content: bytes, password: bytes | None) -> CertificateFile:
    try:
        certificates = x509.load_pem_x509_certificates(content) if b"BEGIN CERTIFICATE" in content else []
        key = load_pem_private_key(content, password) if b"PRIVATE KEY-----" in content else None
    except TypeError:
        # cryptography distinguishes a missing password from a superfluous one.
        needs = "is encrypted: give --password-file" if password is None else "is not encrypted: omit --password-file"
        raise UserError(f"The private key in {str(path)!r} {needs}.") from None
    except ValueError:
        raise UserError(f"{str(path)!r} contains invalid PEM, or the password is wrong.") from None
    if not certificates and key is None:
        raise UserError(f"{str(path)!r} contains neither PEM nor PKCS #12. Check the path.")
    return _ordered(path, certificates, key)


def _read_binary(path: Path, content: bytes, password: bytes | None) -> CertificateFile:
    """PKCS #12 or JKS."""
    text = None if password is None else password.decode(errors="replace")
    try:
        store = read_trust_store(content, password=text)
    except KeyStoreError as error:
        advice = " Give its password with --password-file." if password is None else ""
        raise UserError(f"Cannot read {str(path)!r}: {error}.{advice}") from None
    key = None
    chain: tuple[bytes, ...] = ()
    with suppress(KeyStoreError):
        (entry, *_) = read_key_store(content, password=text, key_password=None).keys
        key, chain = load_der_private_key(entry.key, None), entry.chain
    certificates = [x509.load_der_x509_certificate(one) for one in dict.fromkeys((*chain, *store.anchors))]
    return _ordered(path, certificates, key)


def _ordered(path: Path, certificates: list[x509.Certificate], key: object) -> CertificateFile:
    if key is None:
        return CertificateFile(certificates, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise UserError(f"The private key in {str(path)!r} is neither RSA nor EC. Use one of these.")
    public = key.public_key()
    return CertificateFile(sorted(certificates, key=lambda one: one.public_key() != public), key)

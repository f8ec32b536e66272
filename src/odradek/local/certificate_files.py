"""Reads certificates and private keys from PEM and PKCS #12. The format is detected from the content."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key, pkcs12

from odradek.local.certificates import Issued, PrivateKey
from odradek.text.errors import UserError

_JKS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
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
    if content.startswith(_JKS):
        raise UserError(
            f"{str(path)!r} is a Java key store of type JKS. Convert it: keytool -importkeystore -srckeystore {path} "
            f"-destkeystore {path.with_suffix('.p12')} -deststoretype PKCS12"
        )
    if content.startswith(b"\x30"):
        return _read_pkcs12(path, content, password)
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


def _read_pkcs12(path: Path, content: bytes, password: bytes | None) -> CertificateFile:
    try:
        found = pkcs12.load_pkcs12(content, password)
    except ValueError:
        remark = (
            "needs a password: give --password-file" if password is None else "is damaged, or the password is wrong"
        )
        raise UserError(f"{str(path)!r} {remark}.") from None
    own = [] if found.cert is None else [found.cert.certificate]
    certificates = [*own, *(one.certificate for one in found.additional_certs)]
    if not certificates:
        raise UserError(f"{str(path)!r} contains no certificate.")
    return _ordered(path, certificates, found.key)


def _ordered(path: Path, certificates: list[x509.Certificate], key: object) -> CertificateFile:
    if key is None:
        return CertificateFile(certificates, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise UserError(f"The private key in {str(path)!r} is neither RSA nor EC. Use one of these.")
    public = key.public_key()
    return CertificateFile(sorted(certificates, key=lambda one: one.public_key() != public), key)

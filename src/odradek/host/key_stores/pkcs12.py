"""Keys and certificates in PKCS12, the default of Java's keytool."""

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

from odradek.host.key_stores.pem import key_to_der
from odradek.host.key_stores.store import KeyEntry, KeyStoreError, Store


def read_pkcs12(data: bytes, password: str | None) -> Store:
    """Raises KeyStoreError."""
    try:
        found = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError:
        raise KeyStoreError("it is damaged, or the password is wrong") from None
    except (TypeError, UnsupportedAlgorithm):
        raise KeyStoreError("its encryption is not supported") from None
    others = found.additional_certs
    if found.key is None or found.cert is None:
        own = () if found.cert is None else (found.cert,)
        return Store(trusted=tuple(_der(one.certificate) for one in (*own, *others)))
    chain = _chain(found.cert.certificate, [one.certificate for one in others])
    alias = (found.cert.friendly_name or b"").decode(errors="replace")
    # Java names the certificates that it trusts, and only those.
    trusted = tuple(_der(one.certificate) for one in others if one.friendly_name is not None)
    return Store(keys=(KeyEntry(alias, key_to_der(found.key), chain),), trusted=trusted)


def _chain(leaf: x509.Certificate, others: list[x509.Certificate]) -> tuple[bytes, ...]:
    """From the key's own certificate up to the last known issuer."""
    chain = [leaf]
    while chain[-1].issuer != chain[-1].subject:
        issuer = next((one for one in others if one.subject == chain[-1].issuer and one not in chain), None)
        if issuer is None:
            break
        chain.append(issuer)
    return tuple(map(_der, chain))


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)

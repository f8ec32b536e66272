"""Keys and certificates as PEM: a file, or the text of configs. PEM has no password, only its key may have one."""

import re
from base64 import b64decode, b64encode
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from odradek.host.key_stores.store import KeyEntry, KeyStoreError, Store

ALIAS: Final = "kafka"
_LINE: Final = 64
_CERTIFICATE: Final = re.compile(rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----([\sA-Za-z0-9+/=]*)-----END ")
_KEY: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]*)PRIVATE KEY-----.*?-----END [A-Z0-9 ]*PRIVATE KEY-----", re.DOTALL)


def read_pem_keys(chain: bytes, key: bytes, *, key_password: str | None) -> Store:
    """Raises KeyStoreError."""
    found = list(_KEY.finditer(key))
    if len(found) != 1:
        raise KeyStoreError(
            "there is no private key" if not found else f"there are {len(found)} private keys, where one is expected"
        )
    return Store(keys=(KeyEntry(ALIAS, _decrypt(found[0], key_password), read_pem_certificates(chain)),))


def read_pem_certificates(pem: bytes) -> tuple[bytes, ...]:
    """In DER form. Raises KeyStoreError."""
    try:
        certificates = tuple(b64decode(one[1]) for one in _CERTIFICATE.finditer(pem))
    except ValueError:
        raise KeyStoreError("a certificate is not valid Base64") from None
    if not certificates:
        raise KeyStoreError("there is no certificate")
    return certificates


def _decrypt(found: "re.Match[bytes]", password: str | None) -> bytes:
    is_encrypted = b"ENCRYPTED" in found[0][:400]
    if is_encrypted and not password:
        raise KeyStoreError("the private key is encrypted; set ssl.key.password")
    if password and not is_encrypted:
        raise KeyStoreError("the private key is not encrypted; remove ssl.key.password")
    try:
        key = serialization.load_pem_private_key(found[0], password.encode() if password else None)
    except ValueError:
        wrong_password = "the private key cannot be decrypted; correct ssl.key.password"
        raise KeyStoreError(wrong_password if password else "the private key is invalid") from None
    except (TypeError, UnsupportedAlgorithm):
        raise KeyStoreError("the private key uses an unsupported algorithm") from None
    return key_to_der(key)


def to_pem(label: bytes, der: bytes) -> bytes:
    body = b64encode(der)
    lines = b"".join(b"%b\n" % body[place : place + _LINE] for place in range(0, len(body), _LINE))
    return b"-----BEGIN %b-----\n%b-----END %b-----\n" % (label, lines, label)


def key_to_der(key: PrivateKeyTypes) -> bytes:
    return key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )

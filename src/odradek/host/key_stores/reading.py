"""Reads a key store or a trust store in the format that its content has.

`ssl.keystore.type` says JKS by default, while the stores that keytool writes are PKCS12, also those named `.jks`.
"""

from typing import Final

from odradek.host.key_stores.files import is_pem
from odradek.host.key_stores.jks import JCEKS_MAGIC, MAGIC, read_jks
from odradek.host.key_stores.pem import read_pem_certificates, read_pem_keys
from odradek.host.key_stores.pkcs12 import read_pkcs12
from odradek.host.key_stores.store import KeyStoreError, Store

_DER_SEQUENCE: Final = 0x30


def read_key_store(data: bytes, *, password: str | None, key_password: str | None) -> Store:
    """A store with at least one private key. Raises KeyStoreError."""
    if is_pem(data):
        return read_pem_keys(data, data, key_password=key_password)
    store = _read_binary(data, password, key_password)
    if not store.keys:
        raise KeyStoreError("there is no private key")
    return store


def read_trust_store(data: bytes, *, password: str | None) -> Store:
    """A store with at least one certificate. Raises KeyStoreError."""
    if is_pem(data):
        return Store(trusted=read_pem_certificates(data))
    store = _read_binary(data, password, None)
    if not store.anchors:
        raise KeyStoreError("there is no certificate")
    return store


def _read_binary(data: bytes, password: str | None, key_password: str | None) -> Store:
    if data.startswith(MAGIC):
        return read_jks(data, password, key_password)
    if data.startswith(JCEKS_MAGIC):
        raise KeyStoreError(
            "JCEKS is not supported; convert it: keytool -importkeystore -srckeystore FILE -srcstoretype JCEKS "
            "-destkeystore FILE.p12 -deststoretype PKCS12"
        )
    if data[:1] == bytes((_DER_SEQUENCE,)):
        return read_pkcs12(data, password)
    raise KeyStoreError("it is neither PEM, PKCS12 nor JKS")

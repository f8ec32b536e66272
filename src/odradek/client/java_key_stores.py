"""Java's key stores, PKCS12 and JKS, as PEM. The content of a file decides on its format, not `ssl.keystore.type`.

Their parsers are imported only for them, which keeps the start of commands with PEM fast.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from odradek.host.key_stores.files import is_pem, read_file
from odradek.host.key_stores.store import KeyStoreError

if TYPE_CHECKING:
    from odradek.client.security import Tls


class InvalidStore(KeyStoreError):
    """`config` is the one that names the file."""

    def __init__(self, config: str, reason: str) -> None:
        super().__init__(reason)
        self.config = config


def as_pem(tls: "Tls") -> "Tls":
    """The same certificates and keys, without files that are not PEM. Raises InvalidStore."""
    return _own_as_pem(_authorities_as_pem(tls))


def _authorities_as_pem(tls: "Tls") -> "Tls":
    if tls.authorities_file is None:
        return tls
    with _naming("ssl.truststore.location"):
        data = read_file(tls.authorities_file)
        if is_pem(data):
            return tls
        from odradek.host.key_stores.pem import to_pem
        from odradek.host.key_stores.reading import read_trust_store

        anchors = read_trust_store(data, password=tls.authorities_password).anchors
    pem = b"".join(to_pem(b"CERTIFICATE", one) for one in dict.fromkeys(anchors))
    return replace(tls, authorities_file=None, authorities_password=None, authorities=pem.decode())


def _own_as_pem(tls: "Tls") -> "Tls":
    if tls.own_file is None:
        return tls
    with _naming("ssl.keystore.location"):
        data = read_file(tls.own_file)
        if is_pem(data):
            return tls
        from odradek.host.key_stores.pem import to_pem
        from odradek.host.key_stores.reading import read_key_store

        store = read_key_store(data, password=tls.own_password, key_password=tls.key_password)
    entry = store.keys[0]
    pem = to_pem(b"PRIVATE KEY", entry.key) + b"".join(to_pem(b"CERTIFICATE", one) for one in entry.chain)
    return replace(tls, own_file=None, own_password=None, own=pem.decode(), key_password=None)


@contextmanager
def _naming(config: str) -> Iterator[None]:
    try:
        yield
    except KeyStoreError as error:
        raise InvalidStore(config, str(error)) from None

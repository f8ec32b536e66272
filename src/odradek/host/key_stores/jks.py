"""Keys and certificates in JKS, Java's old format of key stores: its integrity check and its encryption use SHA-1."""

import hashlib
import hmac
import struct
from typing import Final

from odradek.base.der import InvalidDer, read_all_der, read_der
from odradek.host.key_stores.store import KeyEntry, KeyStoreError, Store

MAGIC: Final = b"\xfe\xed\xfe\xed"
JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"

_WHITENER: Final = b"Mighty Aphrodite"
_DIGEST_BYTES: Final = 20
_KEY_TAG: Final = 1
_CERTIFICATE_TAG: Final = 2
_OCTET_STRING: Final = 4


def read_jks(data: bytes, password: str | None, key_password: str | None) -> Store:
    """Without a password, the integrity is not checked, as in Java. Raises KeyStoreError."""
    if password is not None:
        digest = hashlib.sha1(_encode(password) + _WHITENER + data[:-_DIGEST_BYTES], usedforsecurity=False).digest()
        if not hmac.compare_digest(digest, data[-_DIGEST_BYTES:]):
            raise KeyStoreError("it is damaged, or the password is wrong")
    try:
        return _read_entries(_Reader(data[:-_DIGEST_BYTES]), key_password or password)
    except (struct.error, InvalidDer, IndexError):
        raise KeyStoreError("it is damaged") from None


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data: Final = memoryview(data)
        self._position = len(MAGIC)

    def number(self, form: str = ">I") -> int:
        (value,) = struct.unpack_from(form, self._data, self._position)
        self._position += struct.calcsize(form)
        return int(value)

    def bytes(self, size: int) -> bytes:
        found = bytes(self._data[self._position : self._position + size])
        if len(found) < size:
            raise InvalidDer("truncated")
        self._position += size
        return found

    def text(self) -> str:
        return self.bytes(self.number(">H")).decode(errors="replace")


def _read_entries(reader: _Reader, key_password: str | None) -> Store:
    version = reader.number()
    keys: list[KeyEntry] = []
    trusted: list[bytes] = []
    for _ in range(reader.number()):
        tag, alias, _date = reader.number(), reader.text(), reader.number(">Q")
        if tag == _KEY_TAG:
            protected = reader.bytes(reader.number())
            chain = tuple(_read_certificate(reader, version) for _ in range(reader.number()))
            if key_password is not None and chain:
                keys.append(KeyEntry(alias, _decrypt(alias, protected, key_password), chain))
        elif tag == _CERTIFICATE_TAG:
            trusted.append(_read_certificate(reader, version))
        else:
            raise KeyStoreError(f"it has an entry of unknown type {tag}")
    return Store(keys=tuple(keys), trusted=tuple(trusted))


def _read_certificate(reader: _Reader, version: int) -> bytes:
    if version == 2 and (kind := reader.text()) != "X.509":
        raise KeyStoreError(f"it has a certificate of type {kind}, where X.509 is expected")
    return reader.bytes(reader.number())


def _decrypt(alias: str, protected: bytes, password: str) -> bytes:
    outer, _ = read_der(memoryview(protected))
    fields = list(read_all_der(outer.content))
    if len(fields) != 2 or fields[1].tag != _OCTET_STRING:
        raise InvalidDer("not an encrypted key")
    content = bytes(fields[1].content)
    salt, encrypted, check = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    secret = _encode(password)
    stream = bytearray()
    block = salt
    while len(stream) < len(encrypted):
        block = hashlib.sha1(secret + block, usedforsecurity=False).digest()
        stream += block
    key = bytes(one ^ other for one, other in zip(encrypted, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key, usedforsecurity=False).digest(), check):
        raise KeyStoreError(f"the key {alias} cannot be decrypted; correct ssl.key.password")
    return key


def _encode(password: str) -> bytes:
    return password.encode("utf-16-be")

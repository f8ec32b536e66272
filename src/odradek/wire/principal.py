"""Kafka's encoding of a principal, as brokers forward it to controllers.

The format is Kafka's: a version, then type, name, and whether a delegation token authenticated it.
"""

import struct
from typing import Final

from kio.serial.errors import SerialError

from odradek.base.principal import Principal
from odradek.base.varints import read_unsigned_varint, write_unsigned_varint
from odradek.wire.headers import skip_tagged_fields

_VERSION: Final = struct.Struct(">h")
_VERSION_WRITTEN: Final = 0


class UnreadablePrincipal(SerialError):
    pass


def write_principal(principal: Principal) -> bytes:
    flags = bytes((principal.token_authenticated, 0))
    return _VERSION.pack(_VERSION_WRITTEN) + _string(principal.type) + _string(principal.name) + flags


def read_principal(data: bytes) -> Principal:
    """Raises UnreadablePrincipal. Trailing bytes are ignored, as in Kafka."""
    if len(data) < _VERSION.size:
        raise UnreadablePrincipal("a principal without a version")
    (version,) = _VERSION.unpack_from(data)
    if version != _VERSION_WRITTEN:
        raise UnreadablePrincipal(f"a principal of version {version}")
    try:
        kind, position = _read_string(data, _VERSION.size)
        name, position = _read_string(data, position)
        token_authenticated = data[position] != 0
        skip_tagged_fields(data, position + 1)
    except (IndexError, SerialError) as error:
        raise UnreadablePrincipal("a principal shorter than its fields") from error
    return Principal(kind, name, token_authenticated)


def _string(value: str) -> bytes:
    data = value.encode()
    return write_unsigned_varint(len(data) + 1) + data


def _read_string(data: bytes, position: int) -> tuple[str, int]:
    size, position = read_unsigned_varint(data, position)
    end = position + size - 1
    if size == 0:
        raise UnreadablePrincipal("null where there must be a name")
    if end > len(data):
        raise UnreadablePrincipal("a name longer than the principal")
    return data[position:end].decode(errors="replace"), end

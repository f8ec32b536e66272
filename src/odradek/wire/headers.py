"""Request and response headers, with hand-written codecs: every request uses them."""

import struct
from typing import Final, NamedTuple

from kio.serial.errors import SerialError

from odradek.base.message_walk import TAGGED_FIELDS_MAX
from odradek.base.varints import read_unsigned_varint

_FIXED: Final = struct.Struct(">hhih")
_CORRELATION: Final = struct.Struct(">i")


class InvalidHeader(SerialError):
    pass


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    end: int
    """Where the client ID ends. In flexible versions tagged fields follow: see `skip_tagged_fields`."""


def read_request_header(frame: bytearray) -> RequestHeader:
    if len(frame) < 10:
        raise InvalidHeader("request shorter than its header")
    api_key, api_version, correlation_id, client_id_length = _FIXED.unpack_from(frame)
    if client_id_length < 0:
        return RequestHeader(api_key, api_version, correlation_id, None, 10)
    end = 10 + client_id_length
    if end > len(frame):
        raise InvalidHeader("client ID longer than the request")
    try:
        client_id = frame[10:end].decode()
    except UnicodeDecodeError as error:
        raise InvalidHeader("client ID is not UTF-8") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id, end)


def skip_tagged_fields(buffer: bytearray | bytes, offset: int) -> int:
    """The offset after a section of tagged fields, which are ignored."""
    if offset < len(buffer) and buffer[offset] == 0:
        return offset + 1
    count, offset = read_unsigned_varint(buffer, offset)
    if count > TAGGED_FIELDS_MAX:
        raise InvalidHeader(f"more than {TAGGED_FIELDS_MAX} tagged fields")
    for _ in range(count):
        _, offset = read_unsigned_varint(buffer, offset)
        size, offset = read_unsigned_varint(buffer, offset)
        offset += size
    if offset > len(buffer):
        raise InvalidHeader("tagged fields longer than the request")
    return offset


def response_header(correlation_id: int, *, flexible: bool) -> bytes:
    return _CORRELATION.pack(correlation_id) + (b"\0" if flexible else b"")

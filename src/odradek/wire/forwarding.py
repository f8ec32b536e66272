"""A forwarded request inside an Envelope: header and body, as in a frame of its own.

A broker writes the request and reads the response; a controller reads the request and writes the response.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Any, Final

from odradek.base.errors import ErrorCode
from odradek.base.slices import Slices
from odradek.wire.apis import ApiKey
from odradek.wire.headers import (
    InvalidHeader,
    RequestHeader,
    read_request_header,
    response_header,
    skip_tagged_fields,
)
from odradek.wire.schemas import Message, Schema

_REQUEST_PREFIX: Final = struct.Struct(">hhih")
_CORRELATION_ID: Final = struct.Struct(">i")


def write_forwarded_request(chosen: Schema, request: Message, *, correlation_id: int, client_id: str | None) -> bytes:
    name = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(name)
    prefix = _REQUEST_PREFIX.pack(chosen.api_key, chosen.version, correlation_id, size)
    return b"".join((prefix, name, b"\0" if chosen.flexible else b"", chosen.write(request)))


def read_forwarded_response(chosen: Schema, data: bytes, *, correlation_id: int) -> Message:
    """Raises SerialError."""
    if len(data) < _CORRELATION_ID.size or _CORRELATION_ID.unpack_from(data)[0] != correlation_id:
        raise InvalidHeader("response to another request")
    position = _CORRELATION_ID.size
    if chosen.response_header_flexible:
        position = skip_tagged_fields(data, position)
    return chosen.read_foreign_response(data, position)


def read_forwarded_header(data: bytes) -> RequestHeader:
    """Raises SerialError."""
    return read_request_header(bytearray(data[: _REQUEST_PREFIX.size + 0x7FFF]))


def read_forwarded_request(chosen: Schema, data: bytes, header: RequestHeader) -> Message:
    """Raises SerialError."""
    return chosen.read_request(data, _body_of(chosen, data, header))[0]


def forwarded_request_slices(chosen: Schema, data: bytes, header: RequestHeader, elements_max: int) -> Slices[Message]:
    """Decodes a large request. Raises SerialError, and so do the slices."""
    return chosen.request_slices(data, _body_of(chosen, data, header), elements_max)


def _body_of(chosen: Schema, data: bytes, header: RequestHeader) -> int:
    return skip_tagged_fields(data, header.end) if chosen.flexible else header.end


def write_forwarded_response(chosen: Schema, body: Iterable[bytes], *, correlation_id: int) -> bytes:
    """`body` is the encoded response, in chunks."""
    return b"".join((response_header(correlation_id, flexible=chosen.response_header_flexible), *body))


def is_from_wrong_node(api_key: int, response: Message) -> bool:
    """Whether the response says that its node is not the active controller."""
    # DescribeQuorum is for the leader of the quorum, which is the active controller.
    wrong_node = ErrorCode.not_leader_or_follower if api_key == ApiKey.DESCRIBE_QUORUM else ErrorCode.not_controller
    return wrong_node in _errors(response)


def _errors(entity: Any) -> Iterator[ErrorCode]:
    """The error codes of a response. Such a node rejects everything: the first element of an array is enough."""
    for name in entity.__slots__:
        value = getattr(entity, name)
        if isinstance(value, ErrorCode):
            yield value
        elif value.__class__ is tuple and value and hasattr(value[0], "__slots__"):
            yield from _errors(value[0])

"""Kafka's protocol without a client: one request, one response, no retries and no hidden requests.

A request is written once for all versions of its API: fields that a version does not have are left out. It shares no
code with the broker but kio, so that a mistake there is not made twice.
"""

import dataclasses
import io
import socket
import struct
import types
import typing
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from importlib import import_module
from typing import Any, Self

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32

from odradek.wire.describe_transactions_form import DescribeTransactionsResponse
from odradek.wire.plain_numbers import with_plain_numbers

CLIENT_ID = "raw-wire"
_DESCRIBE_TRANSACTIONS = 65
_TOKENS = (38, 39, 40)
RESPONSE_TIMEOUT_S = 30.0


class ConnectionClosed(Exception):
    """The broker closed the connection instead of responding."""


def build(entity_type: Any, fields: Mapping[str, Any]) -> Any:
    """Builds an entity from plain values: mappings for structures, sequences for arrays, milliseconds for durations.

    Missing fields get the schema's default, or else zero, an empty value, or null.
    """
    hints = _field_types(entity_type)
    values = {name: _convert(hints[name], value) for name, value in fields.items() if name in hints}
    for field in dataclasses.fields(entity_type):
        if field.default is dataclasses.MISSING and field.name not in values:
            values[field.name] = _nothing(hints[field.name])
    return entity_type(**values)


@cache
def _field_types(entity_type: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(entity_type)
    return {field.name: hints[field.name] for field in dataclasses.fields(entity_type)}


def _nothing(hint: Any) -> Any:
    if isinstance(hint, types.UnionType):
        return None
    if typing.get_origin(hint) is tuple:
        return ()
    if dataclasses.is_dataclass(hint):
        return build(hint, {})
    return next(zero for zero in (False, 0, timedelta(0), "", b"") if isinstance(zero, hint))


def _convert(hint: Any, value: Any) -> Any:
    if isinstance(hint, types.UnionType):
        if value is None:
            return None
        hint = next(option for option in typing.get_args(hint) if option is not types.NoneType)
    if typing.get_origin(hint) is tuple:
        return tuple(_convert(typing.get_args(hint)[0], item) for item in value)
    if dataclasses.is_dataclass(hint):
        return build(hint, value)
    if isinstance(hint, type) and issubclass(hint, timedelta):
        return timedelta(milliseconds=value)
    return value


def encode_request(
    api_key: int, version: int, correlation_id: int, fields: Mapping[str, Any], client_id: str = CLIENT_ID
) -> bytes:
    """A whole request with its length prefix."""
    request_type = _type_of(load_request_schema(api_key, version), api_key)
    header_type: Any = request_type.__header_schema__
    header = header_type(
        request_api_key=i16(api_key),
        request_api_version=i16(version),
        correlation_id=i32(correlation_id),
        client_id=client_id,
    )
    buffer = io.BytesIO()
    entity_writer(header_type)(buffer, header)
    entity_writer(request_type)(buffer, build(request_type, fields))
    return framed(buffer.getvalue())


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def decode_response(api_key: int, version: int, payload: bytes) -> Any:
    """Decodes the entity in a response, and checks that no byte is left over."""
    response_type = _type_of(load_response_schema(api_key, version), api_key)
    header_type: Any = response_type.__header_schema__
    _, position = entity_reader(header_type)(payload, 0)
    response, size = entity_reader(response_type)(payload, position)
    assert position + size == len(payload), f"{len(payload) - position - size} bytes after the response"
    return response


def _type_of(loaded: Any, api_key: int) -> Any:
    """kio supports neither a transaction that has not started, nor a token without timestamps."""
    if api_key == _DESCRIBE_TRANSACTIONS and loaded.__name__.endswith("Response"):
        return DescribeTransactionsResponse
    if api_key in _TOKENS:
        return getattr(with_plain_numbers(import_module(loaded.__module__)), loaded.__name__)
    return loaded


class RawConnection:
    """One socket. Requests may be pipelined; responses arrive in the order of the requests."""

    def __init__(self, port: int, *, timeout_s: float = RESPONSE_TIMEOUT_S, client_id: str = CLIENT_ID) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0
        self._client_id = client_id

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, api_key: int, version: int, fields: Mapping[str, Any]) -> int:
        """Sends a request and returns its correlation ID."""
        self._correlation_id += 1
        self.send_bytes(encode_request(api_key, version, self._correlation_id, fields, self._client_id))
        return self._correlation_id

    def send_bytes(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except (ConnectionResetError, BrokenPipeError) as problem:
            raise ConnectionClosed from problem

    def receive(self) -> bytes:
        """The next response without its length prefix: header and body."""
        (size,) = struct.unpack(">i", self._receive_exactly(4))
        return self._receive_exactly(size)

    def request(self, api_key: int, version: int, fields: Mapping[str, Any] | None = None) -> Any:
        correlation_id = self.send(api_key, version, fields or {})
        payload = self.receive()
        (received_id,) = struct.unpack_from(">i", payload)
        assert received_id == correlation_id, f"response to {received_id}, expected one to {correlation_id}"
        return decode_response(api_key, version, payload)

    def _receive_exactly(self, size: int) -> bytes:
        parts = []
        while size:
            try:
                part = self.socket.recv(min(size, 1 << 20))
            except ConnectionResetError as problem:
                raise ConnectionClosed from problem
            if not part:
                raise ConnectionClosed
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

"""Envelope, version 0: a client's request that a broker forwards, handled as if the client had sent it directly.

The envelope's own error code reports a request that cannot be read (UNSUPPORTED_VERSION, since the client may be newer
than this node) and NOT_CONTROLLER, so that the broker looks for the active controller instead of failing the client.
"""

from functools import partial
from ipaddress import ip_address
from typing import Final

from kio.schema.index import api_key_map

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Pool
from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import RequestContext
from odradek.wire.apis import CONTROLLER_APIS, FORWARDABLE_APIS, load_handler
from odradek.wire.forwarding import (
    is_from_wrong_node,
    read_forwarded_header,
    read_forwarded_request,
    write_forwarded_response,
)
from odradek.wire.headers import RequestHeader
from odradek.wire.principal import UnreadablePrincipal, read_principal
from odradek.wire.schemas import Message, Schema, SerialError, is_large, schema

# A larger request is parsed in a thread, like a request without an envelope.
READ_ON_LOOP_BYTES_MAX: Final = 32_768
_ADDRESS_SIZES: Final = (4, 16)


async def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Message:
    try:
        data = await _handle_inner(request, context, node)
    except KafkaError as error:
        return context.new("EnvelopeResponse", response_data=None, error_code=error.code)
    return context.new("EnvelopeResponse", response_data=data, error_code=ErrorCode.none)


async def _handle_inner(request: Message, context: RequestContext, node: ControllerNodePort) -> bytes:
    """Returns the inner response with its header. Raises KafkaError for the envelope's own error code."""
    _check_principal(request.request_principal)
    host = _client_host(request.client_host_address)
    data = request.request_data
    header = _header(data)
    messages = _schema(header)
    try:
        if len(data) > READ_ON_LOOP_BYTES_MAX:
            inner = await node.executor.run(partial(read_forwarded_request, messages, data, header), pool=Pool.CODEC)
        else:
            inner = read_forwarded_request(messages, data, header)
    except SerialError as error:
        raise KafkaError(ErrorCode.unsupported_version, f"cannot read the forwarded request: {error}") from error
    inner_context = context._replace(
        api_key=header.api_key,
        version=header.api_version,
        client_id=header.client_id,
        peer_host=host,
        schema=messages,
    )
    handler = load_handler(CONTROLLER_APIS[header.api_key])
    response = await handler.handle(inner, inner_context, node)
    if is_from_wrong_node(header.api_key, response):
        raise KafkaError(ErrorCode.not_controller)
    write = partial(write_forwarded_response, messages, response, correlation_id=header.correlation_id)
    return await node.executor.run(write, pool=Pool.CODEC) if is_large(response) else write()


def _check_principal(data: bytes | None) -> None:
    try:
        read_principal(data or b"")
    except UnreadablePrincipal as error:
        raise KafkaError(ErrorCode.principal_deserialization_failure, str(error)) from error


def _client_host(address: bytes) -> str:
    if len(address) not in _ADDRESS_SIZES:
        raise KafkaError(ErrorCode.invalid_request, f"client address has {len(address)} bytes")
    return str(ip_address(address))


def _header(data: bytes) -> RequestHeader:
    try:
        header = read_forwarded_header(data)
    except SerialError as error:
        raise KafkaError(ErrorCode.unsupported_version, f"cannot read the forwarded header: {error}") from error
    if header.api_key not in api_key_map:
        raise KafkaError(ErrorCode.unsupported_version, f"unknown API {header.api_key}")
    if header.api_key not in FORWARDABLE_APIS:
        raise KafkaError(ErrorCode.invalid_request, f"API {header.api_key} is not eligible for forwarding")
    return header


def _schema(header: RequestHeader) -> Schema:
    api = CONTROLLER_APIS.get(header.api_key)
    if api is None or not api.low <= header.api_version <= api.high:
        raise KafkaError(ErrorCode.unsupported_version, f"API {header.api_key} in version {header.api_version}")
    return schema(header.api_key, header.api_version)

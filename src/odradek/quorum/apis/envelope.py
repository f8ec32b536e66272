"""Envelope, version 0: a client's request that a broker forwards, handled as if the client had sent it directly.

The envelope's own error code reports a request that cannot be read (UNSUPPORTED_VERSION, since the client may be newer
than this node) and NOT_CONTROLLER, so that the broker looks for the active controller instead of failing the client.
"""

from collections.abc import Sequence
from typing import Final

from kio.schema.index import api_key_map

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.principal import Principal
from odradek.core.security.resources import Operation
from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import RequestContext
from odradek.server.denials import find_cluster_denial
from odradek.server.dispatch import HANDLED_AT_ONCE_ELEMENTS_MAX
from odradek.wire.apis import CONTROLLER_APIS, FORWARDABLE_APIS, load_handler
from odradek.wire.client_address import unpack_address
from odradek.wire.forwarding import (
    forwarded_request_slices,
    is_from_wrong_node,
    read_forwarded_header,
    read_forwarded_request,
    write_forwarded_response,
)
from odradek.wire.headers import RequestHeader
from odradek.wire.principal import UnreadablePrincipal, read_principal
from odradek.wire.schemas import Message, Schema, SerialError, is_large, schema
from odradek.wire.sliced_writing import response_slices

# A larger request is decoded in slices, like a request without an envelope.
READ_AT_ONCE_BYTES_MAX: Final = 32_768


async def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Message:
    denial = find_cluster_denial(context, Operation.CLUSTER_ACTION)
    if denial is not None:
        return context.new("EnvelopeResponse", response_data=None, error_code=denial.code)
    try:
        data = await _handle_inner(request, context, node)
    except KafkaError as error:
        return context.new("EnvelopeResponse", response_data=None, error_code=error.code)
    return context.new("EnvelopeResponse", response_data=data, error_code=ErrorCode.none)


async def _handle_inner(request: Message, context: RequestContext, node: ControllerNodePort) -> bytes:
    """Returns the inner response with its header. Raises KafkaError for the envelope's own error code."""
    principal = _principal(request.request_principal)
    host = _client_host(request.client_host_address)
    data = request.request_data
    header = _header(data)
    messages = _schema(header)
    try:
        if len(data) > READ_AT_ONCE_BYTES_MAX:
            inner = await node.slice_turns.run(
                forwarded_request_slices(messages, data, header, HANDLED_AT_ONCE_ELEMENTS_MAX)
            )
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
        principal=principal,
        access=node.access_of(principal, host),
        is_forwarded=True,
    )
    handle = load_handler(CONTROLLER_APIS[header.api_key]).handle
    if node.audit is not None:
        handle = node.audit.add_to(header.api_key, handle)
    response = await handle(inner, inner_context, node)
    if is_from_wrong_node(header.api_key, response):
        raise KafkaError(ErrorCode.not_controller)
    if is_large(response):
        body = await node.slice_turns.run(response_slices(response, _ignore_errors))
    else:
        body = [response if isinstance(response, bytes) else messages.write(response)]
    return write_forwarded_response(messages, body, correlation_id=header.correlation_id)


def _ignore_errors(errors: Sequence[ErrorCode]) -> None:
    """Only the broker that received the request counts them."""


def _principal(data: bytes | None) -> Principal:
    try:
        return read_principal(data or b"")
    except UnreadablePrincipal as error:
        raise KafkaError(ErrorCode.principal_deserialization_failure, str(error)) from error


def _client_host(address: bytes) -> str:
    try:
        return unpack_address(address)
    except ValueError as error:
        raise KafkaError(ErrorCode.invalid_request, str(error)) from error


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

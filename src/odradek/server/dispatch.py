"""Routes requests to their handlers, for one type of listener."""

import struct
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from types import GeneratorType
from typing import Any, Final, NamedTuple

from odradek.base.deferred import DeferredResponse
from odradek.base.principal import Principal
from odradek.base.slices import Slices
from odradek.core.quotas.node_quotas import NodeQuotas
from odradek.core.security.access import Access
from odradek.instruments.request_log import REQUEST_LOG
from odradek.instruments.requests import RequestMeter, RequestMeters
from odradek.server.connection import UnsupportedRequest
from odradek.server.context import RequestContext, ServingPort
from odradek.server.throttling import RequestLimiter
from odradek.wire.apis import ApiKey, ServedApi, load_handler
from odradek.wire.headers import RequestHeader, response_header
from odradek.wire.schemas import Message, Schema, is_large, schema
from odradek.wire.sliced_writing import response_slices

# Larger requests, apart from those with records, are decoded in slices.
DECODED_AT_ONCE_BYTES_MAX: Final = 32_768
# Elements in all arrays of a large request, enough for 20,000 topics. Handlers that work in slices set their own
# ELEMENTS_MAX.
HANDLED_AT_ONCE_ELEMENTS_MAX: Final = 50_000
_LENGTH: Final = struct.Struct(">i")


class _Handler(NamedTuple):
    handle: Callable[..., Any]
    read_request: Callable[..., Any] | None
    """Decodes a frequent request. It returns None for unusual requests, and slices for large ones."""
    elements_max: int


class ApiDispatcher:
    def __init__(self, apis: Mapping[int, ServedApi], port: ServingPort, meters: RequestMeters | None = None) -> None:
        """`port` is passed to every handler."""
        self._meters: Final = meters or RequestMeters()
        self._apis: Final = apis
        self._port: Final = port
        self._schemas: dict[tuple[int, int], Schema] = {}
        self._handlers: dict[int, _Handler] = {}
        self.dispatch_limited: Final = RequestLimiter(self.dispatch, port.client_quotas, port.clock.monotonic).dispatch
        REQUEST_LOG.add_listener(self)

    def on_request_log_changed(self) -> None:
        """Looks the handlers up again: with or without logging."""
        self._handlers.clear()

    def schema_of(self, header: RequestHeader) -> Schema:
        key = (header.api_key, header.api_version)
        found = self._schemas.get(key)
        if found is None:
            api = self._apis.get(header.api_key)
            if api is None:
                raise UnsupportedRequest(f"API {header.api_key} is not supported on this listener")
            if not api.served_from <= header.api_version <= api.high:
                raise UnsupportedRequest(f"version {header.api_version} of API {header.api_key} is not supported")
            found = self._schemas[key] = schema(*key)
        return found

    def meter_of(self, messages: Schema) -> RequestMeter:
        return self._meters.meter(messages.api_name, messages.version)

    def access_of(self, principal: Principal, host: str) -> Access:
        return self._port.access_of(principal, host)

    @property
    def client_quotas(self) -> NodeQuotas:
        return self._port.client_quotas

    def dispatch(self, frame: bytearray, body: int, context: RequestContext) -> Any:
        api_key = context.api_key
        handler = self._handlers.get(api_key)
        if handler is None:
            handler = self._handlers[api_key] = self._load(api_key)
        handle, read_request, elements_max = handler
        if read_request is not None:
            read = read_request(frame, body, context.version)
            if read.__class__ is GeneratorType:
                return self._read_and_handle(handle, read, context)
            if read is not None:
                return handle(read, context, self._port)
        # kio reads immutable buffers only.
        data = bytes(frame)
        if len(data) > DECODED_AT_ONCE_BYTES_MAX:
            return self._read_and_handle(handle, context.schema.request_slices(data, body, elements_max), context)
        request, _ = context.schema.read_request(data, body)
        response = handle(request, context, self._port)
        if response.__class__ is bytes or response.__class__ is list or isinstance(response, DeferredResponse):
            return response
        if isawaitable(response):
            return self._await_and_write(response, context)
        return self._write(response, context) if is_large(response) else response

    def _load(self, api_key: int) -> "_Handler":
        module = load_handler(self._apis[api_key])
        handle = module.handle
        if self._port.audit is not None:
            handle = self._port.audit.add_to(api_key, handle)
        if REQUEST_LOG.is_on:
            from odradek.server.logged_requests import add_logging

            handle = add_logging(handle, REQUEST_LOG)
        elements_max = getattr(module, "ELEMENTS_MAX", HANDLED_AT_ONCE_ELEMENTS_MAX)
        return _Handler(handle, getattr(module, "read_request", None), elements_max)

    async def _read_and_handle(self, handle: Callable[..., Any], slices: Slices[Any], context: RequestContext) -> Any:
        """For a large request: decoding it at once would block the event loop."""
        request = await self._port.slice_turns.run(slices)
        response = handle(request, context, self._port)
        if isinstance(response, DeferredResponse):
            response = await response.wait()
        elif isawaitable(response):
            response = await response
        return await self._write(response, context) if is_large(response) else response

    async def _await_and_write(self, awaited: Awaitable[Any], context: RequestContext) -> Any:
        response = await awaited
        return await self._write(response, context) if is_large(response) else response

    async def _write(self, response: Message, context: RequestContext) -> list[bytes]:
        """For a large response: encoding it at once would block the event loop."""
        return await self._port.slice_turns.run(response_slices(response, context.meter.count_errors))

    def refuse_version(self, header: RequestHeader) -> bytes | None:
        """An ApiVersions request of an unknown version gets a response in version 0, with the known versions."""
        if header.api_key != ApiKey.API_VERSIONS:
            return None
        from odradek.server.apis.served_versions import unsupported_version_response

        return response_header(header.correlation_id, flexible=False) + unsupported_version_response(self._apis)

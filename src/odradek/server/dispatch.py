"""Routes requests to their handlers, for one type of listener."""

import struct
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Any, Final

from odradek.base.deferred import DeferredResponse
from odradek.base.ports import Pool
from odradek.instruments.request_log import REQUEST_LOG
from odradek.instruments.requests import RequestMeter, RequestMeters
from odradek.server.connection import UnsupportedRequest
from odradek.server.context import RequestContext, ServingPort
from odradek.wire.apis import ApiKey, ServedApi, load_handler
from odradek.wire.error_codes import error_codes
from odradek.wire.headers import RequestHeader, response_header
from odradek.wire.schemas import Message, Schema, is_large, schema

# Larger requests, apart from those with records, are decoded in a thread.
DECODED_ON_LOOP_BYTES_MAX: Final = 32_768
_LENGTH: Final = struct.Struct(">i")


class ApiDispatcher:
    def __init__(self, apis: Mapping[int, ServedApi], port: ServingPort, meters: RequestMeters | None = None) -> None:
        """`port` is passed to every handler."""
        self._meters: Final = meters or RequestMeters()
        self._apis: Final = apis
        self._port: Final = port
        self._schemas: dict[tuple[int, int], Schema] = {}
        self._handlers: dict[int, tuple[Callable[..., Any], Callable[..., Any] | None]] = {}
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

    def dispatch(self, frame: bytearray, body: int, context: RequestContext) -> Any:
        api_key = context.api_key
        handler = self._handlers.get(api_key)
        if handler is None:
            handler = self._handlers[api_key] = self._load(api_key)
        handle, read_request = handler
        if read_request is not None:
            read = read_request(frame, body, context.version)
            if read is not None:
                return handle(read, context, self._port)
        # kio reads immutable buffers only.
        data = bytes(frame)
        if len(data) > DECODED_ON_LOOP_BYTES_MAX:
            return self._read_and_handle(handle, data, body, context)
        request, _ = context.schema.read_request(data, body)
        response = handle(request, context, self._port)
        if response.__class__ is bytes or response.__class__ is list or isinstance(response, DeferredResponse):
            return response
        if isawaitable(response):
            return self._await_and_write(response, context)
        return self._write(response, context) if is_large(response) else response

    def _load(self, api_key: int) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
        module = load_handler(self._apis[api_key])
        handle = module.handle
        if REQUEST_LOG.is_on:
            from odradek.server.logged_requests import add_logging

            handle = add_logging(handle, REQUEST_LOG)
        # Frequent requests have a decoder of their own, which returns None for unusual requests.
        return handle, getattr(module, "read_request", None)

    async def _read_and_handle(
        self, handle: Callable[..., Any], data: bytes, body: int, context: RequestContext
    ) -> Any:
        """For a large request: decoding it would block the event loop."""
        request, _ = await self._port.executor.run(lambda: context.schema.read_request(data, body), pool=Pool.CODEC)
        response = handle(request, context, self._port)
        if isinstance(response, DeferredResponse):
            response = await response.wait()
        elif isawaitable(response):
            response = await response
        return await self._write(response, context) if is_large(response) else response

    async def _await_and_write(self, awaited: Awaitable[Any], context: RequestContext) -> Any:
        response = await awaited
        return await self._write(response, context) if is_large(response) else response

    async def _write(self, response: Message, context: RequestContext) -> bytes:
        """For a large response: encoding it would block the event loop."""
        errors, written = await self._port.executor.run(
            lambda: (error_codes(response), context.schema.write(response)), pool=Pool.CODEC
        )
        context.meter.count_errors(errors)
        return written

    def refuse_version(self, header: RequestHeader) -> bytes | None:
        """An ApiVersions request of an unknown version gets a response in version 0, with the known versions."""
        if header.api_key != ApiKey.API_VERSIONS:
            return None
        from odradek.server.apis.served_versions import unsupported_version_response

        return response_header(header.correlation_id, flexible=False) + unsupported_version_response(self._apis)

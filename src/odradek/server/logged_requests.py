"""Wraps a handler so that its requests are logged once they complete, in the format of Kafka's request log.

Records and other bytes are logged as their size, long arrays are truncated, and configs that may be secrets are
redacted.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import timedelta
from enum import IntEnum
from inspect import isawaitable
from typing import Any, Final
from uuid import UUID

from odradek.base.deferred import DeferredResponse
from odradek.base.ids import uuid_to_text
from odradek.config.definitions import BROKER_CONFIGS, TOPIC_CONFIGS
from odradek.config.values import ConfigType
from odradek.instruments.request_log import LOGGER, RequestLog
from odradek.server.context import RequestContext

logger: Final = logging.getLogger(LOGGER)

ARRAY_SHOWN_MAX: Final = 100
_REDACTED: Final = "(redacted)"
_TOPIC_KEYS: Final = frozenset({"name", "topic", "topicName", "topicNames", "topics", "subscribedTopicNames"})

Handle = Callable[..., Any]


def add_logging(handle: Handle, log: RequestLog) -> Handle:
    """The handler with logging, while `log` is enabled."""

    def handle_and_log(request: Any, context: RequestContext, port: Any) -> Any:
        # Before handling, which changes the request: records get their offsets in place.
        shown = _to_json(request)
        if not _is_selected(log, shown, context, port):
            return handle(request, context, port)
        entry = _Entry(context, shown)
        response = handle(request, context, port)
        entry.mark_handled()
        if isinstance(response, DeferredResponse):
            response.convert(entry.write_through)
            return response
        if isawaitable(response):
            return _await_and_log(response, entry)
        entry.write(response)
        return response

    return handle_and_log


class _Entry:
    def __init__(self, context: RequestContext, request: Any) -> None:
        self._context: Final = context
        self._request: Final = request
        self._time: Final = asyncio.get_running_loop().time
        self._began: Final = self._time()
        self._handled = self._began

    def mark_handled(self) -> None:
        self._handled = self._time()

    def write(self, response: Any) -> None:
        context = self._context
        total, local = self._time() - self._began, self._handled - self._began
        entry = {
            "requestHeader": {
                "requestApiKey": context.api_key,
                "requestApiVersion": context.version,
                "clientId": context.client_id,
                "requestApiKeyName": context.schema.api_name.upper(),
            },
            "request": _truncate(self._request),
            "response": _truncate(_response(response)),
            "connection": context.peer_host,
            "totalTimeMs": round(total * 1000, 3),
            "localTimeMs": round(local * 1000, 3),
            "remoteTimeMs": round((total - local) * 1000, 3),
            "listener": context.listener_name,
        }
        logger.log(max(logger.level, logging.DEBUG), "Completed request:%s", json.dumps(entry))

    def write_through(self, response: Any) -> Any:
        """Logs a deferred response when it completes, and returns it."""
        self.write(response)
        return response


async def _await_and_log(awaited: Any, entry: _Entry) -> Any:
    response = await awaited
    entry.write(response)
    return response


def _is_selected(log: RequestLog, request: Any, context: RequestContext, port: Any) -> bool:
    if log.is_for_all_clients or context.client_id in log.clients:
        return True
    if not log.topics:
        return False
    named = set(_topics_in(request))
    if named & log.topics:
        return True
    image = getattr(port, "image", None)
    known = {} if image is None else image.topics_by_name
    return any(name in known and uuid_to_text(known[name].id) in named for name in log.topics)


def _topics_in(shown: Any) -> Iterator[str]:
    """Topic names, and topic IDs as text, wherever a request has them."""
    if isinstance(shown, Mapping):
        for key, value in shown.items():
            if key == "topicId" or (key in _TOPIC_KEYS and isinstance(value, str)):
                yield value
            elif key in _TOPIC_KEYS and isinstance(value, list):
                yield from (one for one in value if isinstance(one, str))
                yield from _topics_in(value)
            else:
                yield from _topics_in(value)
    elif isinstance(shown, list):
        for one in shown:
            yield from _topics_in(one)


def _response(response: Any) -> Any:
    if isinstance(response, bytes):
        return {"sizeInBytes": len(response)}
    if isinstance(response, list):
        return {"sizeInBytes": sum(map(len, response))}
    return _to_json(response)


def _to_json(value: Any) -> Any:
    """A message, or a part of it, with Kafka's field names and formats."""
    if is_dataclass(value) or hasattr(value, "_fields"):
        return _entity(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return {"sizeInBytes": len(value)}
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, UUID):
        return uuid_to_text(value)
    if isinstance(value, IntEnum):
        return int(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [_to_json(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _truncate(shown: Any) -> Any:
    """Shortens long arrays."""
    if isinstance(shown, dict):
        return {key: _truncate(value) for key, value in shown.items()}
    if isinstance(shown, list):
        left = len(shown) - ARRAY_SHOWN_MAX
        first = [_truncate(one) for one in shown[:ARRAY_SHOWN_MAX]]
        return [*first, f"and {left} more"] if left > 0 else first
    return shown


def _entity(value: Any) -> dict[str, Any]:
    names = value._fields if hasattr(value, "_fields") else [field.name for field in fields(value)]
    shown = {_camel(name): _to_json(getattr(value, name)) for name in names}
    # An entity with a name and a value is a config, which may be a password.
    if {"name", "value"} <= shown.keys() and _may_be_secret(shown["name"]):
        shown["value"] = _REDACTED
    return shown


def _may_be_secret(name: Any) -> bool:
    definition = BROKER_CONFIGS.get(name) or TOPIC_CONFIGS.get(name)
    return definition is None or definition.type is ConfigType.PASSWORD


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))

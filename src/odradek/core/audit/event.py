"""One line of the audit log."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from odradek.base.principal import Principal

SUCCESS: Final = "success"
FAILURE: Final = "failure"
DENIED: Final = "denied"
UNKNOWN: Final = "unknown"
"""The change was written, but this node does not know whether it was committed."""

AUTHENTICATION: Final = "authentication"
AUTHORIZATION: Final = "authorization"
STARTED: Final = "audit.start"
DROPPED: Final = "audit.dropped"

TEXT_LENGTH_MAX: Final = 4096
"""Of every text in an event: clients choose many of them."""
ITEMS_MAX: Final = 1000
"""Of every list and mapping in an event."""


class Caller(NamedTuple):
    """Who sent a request, and how it arrived."""

    principal: Principal | None = None
    """None: the client is not authenticated."""
    address: str | None = None
    client_id: str | None = None
    listener: str | None = None
    api: str | None = None
    """Kafka's name, such as CreateTopics."""
    request_id: str | None = None
    """The same for all events of one request, and for no other request."""
    correlation_id: int | None = None
    """As the client has numbered the request. None: it was forwarded by a broker."""
    is_forwarded: bool = False


NO_CALLER: Final = Caller()


class AuditEvent(NamedTuple):
    time_ms: int
    node_id: int
    event: str
    outcome: str
    caller: Caller = NO_CALLER
    operation: str | None = None
    """The ACL operation that was denied."""
    resource_type: str | None = None
    resource_name: str | None = None
    error: str | None = None
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    mechanism: str | None = None
    """Of a failed authentication: the SASL mechanism, or SSL, or BASIC for HTTP."""
    detail: str | None = None


def fields_of(event: AuditEvent) -> dict[str, Any]:
    """Every event has the same fields, in the same order. Those that do not apply are null."""
    caller = event.caller
    principal = caller.principal
    return {
        "time": iso_time(event.time_ms),
        "node_id": event.node_id,
        "event": event.event,
        "outcome": event.outcome,
        "error": event.error,
        "principal": None if principal is None else limited(str(principal)),
        "token_authenticated": principal is not None and principal.token_authenticated,
        "address": caller.address,
        "client_id": limited(caller.client_id),
        "listener": caller.listener,
        "api": caller.api,
        "operation": event.operation,
        "mechanism": limited(event.mechanism),
        "resource_type": event.resource_type,
        "resource_name": limited(event.resource_name),
        "before": limited(event.before),
        "after": limited(event.after),
        "request_id": caller.request_id,
        "correlation_id": caller.correlation_id,
        "forwarded": caller.is_forwarded,
        "detail": limited(event.detail),
    }


def line_of(fields: Mapping[str, Any]) -> bytes:
    """One line of ASCII: no text of a client can start another line, or control a terminal."""
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def iso_time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def limited(value: Any) -> Any:
    """The value with long texts and collections cut off."""
    if isinstance(value, str):
        left = len(value) - TEXT_LENGTH_MAX
        return value if left <= 0 else f"{value[:TEXT_LENGTH_MAX]}... and {left} more characters"
    if isinstance(value, Mapping):
        shown = {str(limited(key)): limited(value[key]) for key in list(value)[:ITEMS_MAX]}
        if len(value) > ITEMS_MAX:
            shown["..."] = f"and {len(value) - ITEMS_MAX} more"
        return shown
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        shown_items = [limited(one) for one in value[:ITEMS_MAX]]
        return shown_items if len(value) <= ITEMS_MAX else [*shown_items, f"and {len(value) - ITEMS_MAX} more"]
    return value

"""Adds reports to handlers: who sent a request, for the denials in it, and what it has changed."""

from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable, iscoroutine
from typing import Any, Final, NamedTuple

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.core.audit.event import FAILURE, SUCCESS, AuditEvent, Caller
from odradek.server.audit.results import Result, results_of
from odradek.server.audit.trail import CURRENT, AuditTrail
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

Handle = Callable[..., Any]

DENIALS: Final = frozenset(
    (
        ErrorCode.cluster_authorization_failed,
        ErrorCode.delegation_token_authorization_failed,
        ErrorCode.group_authorization_failed,
        ErrorCode.topic_authorization_failed,
        ErrorCode.transactional_id_authorization_failed,
    )
)
"""The authorizer has reported them, with the operation that was denied."""
CONFIG: Final = "CONFIG"
"""The type of resource is in the response."""
_CONFIG_TYPES: Final[Mapping[int | None, str]] = {
    2: "TOPIC",
    4: "BROKER",
    8: "BROKER_LOGGER",
    16: "CLIENT_METRICS",
    32: "GROUP",
}
UNCHANGED: Final = frozenset((ErrorCode.election_not_needed,))


def _no_name(request: Message, position: int) -> str | None:
    return None


class ChangeKind(NamedTuple):
    """What an administrative request does."""

    event: str
    resource_type: str
    name_in_request: Callable[[Message, int], str | None] = _no_name
    """The name of the resource at a position of the request, for responses without names."""


class RequestAudit:
    """For the handlers of a broker or a controller."""

    def __init__(self, trail: AuditTrail, kinds: Mapping[int, ChangeKind], *, has_authorizer: bool) -> None:
        self._trail: Final = trail
        self._kinds: Final = kinds
        self._has_authorizer: Final = has_authorizer

    def add_to(self, api_key: int, handle: Handle) -> Handle:
        kind = self._kinds.get(api_key)
        if kind is not None:
            return self._report_changes(kind, handle)
        return _note_context(handle) if self._has_authorizer else handle

    def _report_changes(self, kind: ChangeKind, handle: Handle) -> Handle:
        async def handle_and_report(request: Message, context: RequestContext, port: Any) -> Any:
            caller = self._trail.caller_of(context)
            return await _within(caller, self.run(kind, handle, request, context, port, caller))

        return handle_and_report

    async def run(
        self, kind: ChangeKind, handle: Handle, request: Message, context: RequestContext, port: Any, caller: Caller
    ) -> Any:
        """Handles the request and reports its changes."""
        raise NotImplementedError


def _note_context(handle: Handle) -> Handle:
    def handle_noted(request: Any, context: RequestContext, port: Any) -> Any:
        token = CURRENT.set(context)
        try:
            response = handle(request, context, port)
        finally:
            CURRENT.reset(token)
        return _within(context, response) if iscoroutine(response) else response

    return handle_noted


async def _within(current: RequestContext | Caller, awaited: Awaitable[Any]) -> Any:
    """Not restored if it is cancelled: then the task ends, perhaps in another context."""
    previous = CURRENT.get()
    CURRENT.set(current)
    response = await awaited
    CURRENT.set(previous)
    return response


async def response_of(handle: Handle, request: Message, context: RequestContext, port: Any) -> Any:
    response = handle(request, context, port)
    if isinstance(response, DeferredResponse):
        return await response.wait()
    return await response if isawaitable(response) else response


def failed_events(
    kind: ChangeKind, request: Message, response: Message, time_ms: int, node_id: int, caller: Caller
) -> list[AuditEvent]:
    """One event per resource and error."""
    failed: dict[tuple[str, str | None, ErrorCode], list[int]] = {}
    for result in results_of(response):
        if result.code is not ErrorCode.none and result.code not in DENIALS and result.code not in UNCHANGED:
            resource_type = kind.resource_type
            if resource_type == CONFIG:
                resource_type = _CONFIG_TYPES.get(result.config_type, CONFIG)
            key = (resource_type, name_of_result(kind, request, result), result.code)
            partitions = failed.setdefault(key, [])
            if result.partition is not None:
                partitions.append(result.partition)
    return [
        AuditEvent(
            time_ms,
            node_id,
            kind.event,
            FAILURE,
            caller,
            resource_type=resource_type,
            resource_name=name,
            error=code.name.upper(),
            detail=f"partitions {', '.join(map(str, partitions))}" if partitions else None,
        )
        for (resource_type, name, code), partitions in failed.items()
    ]


def name_of_result(kind: ChangeKind, request: Message, result: Result) -> str | None:
    return ":".join(result.names) if result.names else kind.name_in_request(request, result.position)


def succeeded(
    kind: ChangeKind, time_ms: int, node_id: int, caller: Caller, name: str | None, **values: Any
) -> AuditEvent:
    return AuditEvent(
        time_ms, node_id, kind.event, SUCCESS, caller, resource_type=kind.resource_type, resource_name=name, **values
    )

"""What this node reports to its audit log. Nothing here waits: the sink either takes an entry at once, or counts it."""

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Final, Protocol

from odradek.base.ports import Clock
from odradek.core.audit.event import (
    AUTHENTICATION,
    AUTHORIZATION,
    DENIED,
    FAILURE,
    AuditEvent,
    Caller,
)
from odradek.core.security.authorizer import Denial
from odradek.server.context import RequestContext
from odradek.server.security import AuthenticationFailure

REJECTIONS_PER_SECOND_MAX: Final = 100
"""Failed logins and denials. Clients may cause any number: more would only push older events out of the files."""

BuildEvents = Callable[[], Iterable[AuditEvent]]


class AuditSink(Protocol):
    """Both methods return at once, and may be called on the event loop."""

    def offer(self, build: BuildEvents, *, size: int = 1, is_change: bool = False) -> None:
        """`build` runs in the thread of the writer. `size` is the number of events, or an estimate.

        If the queue is full, the events are dropped and counted. Part of it is reserved for changes.
        """

    def count_dropped(self, reason: str) -> None: ...


CURRENT: Final[ContextVar[RequestContext | Caller | None]] = ContextVar("audited request", default=None)
"""The request that is being handled, or who sent it: authorizers do not know it."""


class AuditTrail:
    def __init__(self, node_id: int, clock: Clock, sink: AuditSink) -> None:
        self.node_id: Final = node_id
        self.clock: Final = clock
        self.sink: Final = sink
        self._requests = 0
        self._began_ms: Final = clock.wall_ms()
        self._second = 0
        self._rejections = 0

    def caller_of(self, context: RequestContext) -> Caller:
        self._requests += 1
        return Caller(
            context.principal,
            context.peer_host,
            context.client_id,
            context.listener_name,
            context.schema.api_name,
            f"{self.node_id}-{self._began_ms:x}-{self._requests}",
            None if context.is_forwarded else context.connection.correlation_id,
            context.is_forwarded,
        )

    def on_authentication_failure(self, failure: AuthenticationFailure) -> None:
        if not self._has_room():
            return
        now_ms, node_id = self.clock.wall_ms(), self.node_id
        event = AuditEvent(
            now_ms,
            node_id,
            AUTHENTICATION,
            FAILURE,
            Caller(address=_host_of(failure.peer), listener=failure.listener_name),
            resource_type=None if failure.user is None else "USER",
            resource_name=failure.user,
            mechanism=failure.mechanism,
            detail=failure.reason,
        )
        self.sink.offer(lambda: (event,))

    def on_denied(self, denial: Denial) -> None:
        if not self._has_room():
            return
        current = CURRENT.get()
        caller = self.caller_of(current) if isinstance(current, RequestContext) else current
        if caller is None or caller.principal != denial.principal:
            caller = Caller(denial.principal, denial.host)
        event = AuditEvent(
            self.clock.wall_ms(),
            self.node_id,
            AUTHORIZATION,
            DENIED,
            caller,
            operation=denial.operation.name,
            resource_type=denial.resource_type.name,
            resource_name=denial.name,
            detail=denial.rule,
        )
        self.sink.offer(lambda: (event,))

    def _has_room(self) -> bool:
        second = int(self.clock.monotonic())
        if second != self._second:
            self._second, self._rejections = second, 0
        self._rejections += 1
        if self._rejections > REJECTIONS_PER_SECOND_MAX:
            self.sink.count_dropped("rate")
            return False
        return True


def _host_of(peer: str) -> str:
    """Without the port, if there is one. IPv6 addresses with a port have brackets."""
    if peer.startswith("["):
        return peer[1:].partition("]")[0]
    host, _, port = peer.partition(":")
    return peer if ":" in port else host

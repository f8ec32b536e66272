"""Carries out the decisions of a connection's authentication: responses, delays, threads and deadlines."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from odradek.base.principal import Principal
from odradek.server.authentication import (
    Authentication,
    Block,
    Decision,
    Expire,
    Pass,
    Reject,
    Respond,
    Result,
    State,
    Versions,
)
from odradek.server.log_limits import LimitedMessages
from odradek.server.security import AuthenticationFailure, SaslServer

logger = logging.getLogger(__name__)
logger.addFilter(LimitedMessages())

AUTHENTICATION_SECONDS_MAX: Final = 30.0
"""From the connection's admission until its client is authenticated."""


class SaslConnection(Protocol):
    """The connection, as its authentication uses it."""

    @property
    def listener_name(self) -> str: ...

    @property
    def peer(self) -> str: ...

    def send_frame(self, data: bytes) -> None:
        """Writes a response without its length."""

    def respond_to_versions(self, frame: bytearray) -> bool:
        """Whether the response is no error."""

    def set_busy(self, is_busy: bool) -> None:
        """While the connection is busy, it handles no frames and reads none."""

    def set_request_bytes_max(self, limit: int | None) -> None:
        """None: as on any listener."""

    def set_principal(self, principal: Principal) -> None: ...

    def forget_contexts(self) -> None:
        """Every next request passes `ConnectionAuthentication.consumes`."""

    def close_after_responses(self, reason: str | None) -> None: ...


class ConnectionAuthentication:
    def __init__(self, sasl: SaslServer, connection: SaslConnection) -> None:
        self._sasl: Final = sasl
        self._connection: Final = connection
        self._state: Final = Authentication(sasl)
        connection.set_request_bytes_max(self._state.request_bytes_max)
        # Of the deadline, of the delay after a failure, or of the session's end.
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_authenticated_before = False

    @property
    def is_authenticated(self) -> bool:
        return self._state.state is State.AUTHENTICATED

    def start(self) -> None:
        self._set_timer(AUTHENTICATION_SECONDS_MAX, self._on_deadline)

    def stop(self) -> None:
        """The connection is closed."""
        self._cancel_timer()
        if self._task is not None:
            self._task.cancel()

    def consumes(self, frame: bytearray) -> bool:
        """False: the frame is an ordinary request of an authenticated client."""
        if self._state.state is State.FAILED:
            # The connection is closing.
            return True
        decision = self._state.receive(frame)
        if isinstance(decision, Pass):
            return False
        if isinstance(decision, Versions):
            if self._connection.respond_to_versions(frame):
                self._state.on_versions_sent()
        else:
            self._execute(decision)
        return True

    def on_oversized(self) -> None:
        if self._state.state is not State.FAILED:
            self._execute(self._state.on_oversized())

    def _execute(self, decision: Decision) -> None:
        connection = self._connection
        match decision:
            case Respond(data, is_authenticated):
                connection.forget_contexts()
                connection.set_request_bytes_max(self._state.request_bytes_max)
                if is_authenticated:
                    self._on_authenticated()
                connection.send_frame(data)
            case Block(work):
                connection.set_busy(True)
                self._task = asyncio.ensure_future(self._run(self._sasl.executor.run(work)))
            case Reject():
                self._on_rejected(decision)
            case Expire():
                self._sasl.counts.expired_connections += 1
                connection.close_after_responses("the session of its authentication has expired")

    async def _run(self, work: Coroutine[Any, Any, Result]) -> None:
        try:
            result = await work
        except asyncio.CancelledError:
            return
        except Exception:
            logger.exception("Authentication of %s failed", self._connection.peer)
            self._connection.close_after_responses(None)
            return
        self._task = None
        self._connection.set_busy(False)
        self._execute(self._state.resume(result))

    def _on_authenticated(self) -> None:
        state, connection = self._state, self._connection
        principal = state.principal
        assert principal is not None
        self._cancel_timer()
        logger.debug("Authenticated %s as %s", connection.peer, principal)
        if self._is_authenticated_before:
            self._sasl.counts.successful_reauthentications += 1
        else:
            self._is_authenticated_before = True
            self._sasl.counts.successful += 1
        connection.set_principal(principal)
        self._watch_session()

    def _on_rejected(self, rejection: Reject) -> None:
        state, connection, is_again = self._state, self._connection, self._is_authenticated_before
        self._cancel_timer()
        logger.info("Failed %sauthentication with %s: %s", "re-" if is_again else "", connection.peer, rejection.reason)
        self._sasl.on_failure(
            AuthenticationFailure(
                connection.listener_name, connection.peer, state.mechanism, rejection.reason, rejection.user
            )
        )
        delay_seconds = 0.0
        if rejection.is_failed_authentication:
            delay_seconds = self._sasl.failure_delay_seconds
            if is_again:
                self._sasl.counts.failed_reauthentications += 1
            else:
                self._sasl.counts.failed += 1
        if delay_seconds > 0:
            connection.set_busy(True)
            self._set_timer(delay_seconds, lambda: self._end(rejection.response))
        else:
            self._end(rejection.response)

    def _end(self, response: bytes | None) -> None:
        self._timer = None
        if response is not None:
            self._connection.send_frame(response)
        self._connection.close_after_responses(None)

    def _on_deadline(self) -> None:
        self._timer = None
        self._connection.close_after_responses(f"not authenticated within {AUTHENTICATION_SECONDS_MAX:g} s")

    def _watch_session(self) -> None:
        """Requests after the session's end must not find a cached context."""
        self._timer = None
        ends_at = self._state.session_expires_at
        if ends_at is None:
            return
        seconds = ends_at - self._sasl.clock.monotonic()
        if seconds > 0:
            self._set_timer(seconds, self._watch_session)
        else:
            self._connection.forget_contexts()

    def _set_timer(self, seconds: float, callback: Callable[[], None]) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, callback)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

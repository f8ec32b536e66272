"""The authentication of one SASL connection, without I/O: frames in, decisions out.

A connection starts with ApiVersions and SaslHandshake. Version 1 of the handshake is followed by SaslAuthenticate
requests, version 0 by the mechanism's messages without headers. A client whose session can expire starts again with
SaslHandshake on the authenticated connection (KIP-368), with the same mechanism and principal.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import Enum
from typing import Final, NamedTuple

from odradek.base.errors import ErrorCode
from odradek.base.principal import Principal
from odradek.core.security.delegation_tokens import is_same
from odradek.server.security import SaslServer, SaslServerExchange
from odradek.wire.apis import APIS, ApiKey
from odradek.wire.headers import RequestHeader, read_request_header, response_header, skip_tagged_fields
from odradek.wire.sasl.exchange import GSSAPI, OAUTHBEARER, AuthenticationFailed, SaslError
from odradek.wire.schemas import Message, Schema, SerialError, schema

HANDSHAKE_BYTES_MAX: Final = 16_384
"""Of an ApiVersions or SaslHandshake request before authentication."""
MESSAGE_BYTES_MAX: Final = 32_768
"""Of a mechanism's message that has no tokens, which may be large."""
LIFETIME_MS_MAX: Final = 10**15
"""A delegation token may expire after the largest number that a response can have."""
REAUTHENTICATION_INTERVAL_SECONDS_MIN: Final = 1.0
_LARGE_MECHANISMS: Final = (OAUTHBEARER, GSSAPI)


class State(Enum):
    INITIAL = "initial"
    """ApiVersions or SaslHandshake is next."""
    HANDSHAKE = "handshake"
    """SaslHandshake is next."""
    EXCHANGE = "exchange"
    """SaslAuthenticate requests."""
    RAW_EXCHANGE = "raw exchange"
    """Messages of the mechanism without headers."""
    OTHER_MECHANISM = "other mechanism"
    """The client tries to change its mechanism. As in Kafka, the connection fails with the next message."""
    AUTHENTICATED = "authenticated"
    FAILED = "failed"


class Event(Enum):
    VERSIONS_SENT = 1
    HANDSHAKE_ACCEPTED = 2
    RAW_HANDSHAKE_ACCEPTED = 3
    OTHER_MECHANISM_REQUESTED = 4
    CHALLENGE_SENT = 5
    EXCHANGE_COMPLETED = 6
    REJECTED = 7


_HANDSHAKES: Final = {Event.HANDSHAKE_ACCEPTED: State.EXCHANGE, Event.RAW_HANDSHAKE_ACCEPTED: State.RAW_EXCHANGE}
_REJECTED: Final = {Event.REJECTED: State.FAILED}
TRANSITIONS: Final[Mapping[State, Mapping[Event, State]]] = {
    State.INITIAL: {Event.VERSIONS_SENT: State.HANDSHAKE, **_HANDSHAKES, **_REJECTED},
    State.HANDSHAKE: {**_HANDSHAKES, **_REJECTED},
    State.EXCHANGE: {
        Event.CHALLENGE_SENT: State.EXCHANGE,
        Event.EXCHANGE_COMPLETED: State.AUTHENTICATED,
        **_REJECTED,
    },
    State.RAW_EXCHANGE: {
        Event.CHALLENGE_SENT: State.RAW_EXCHANGE,
        Event.EXCHANGE_COMPLETED: State.AUTHENTICATED,
        **_REJECTED,
    },
    State.AUTHENTICATED: {**_HANDSHAKES, Event.OTHER_MECHANISM_REQUESTED: State.OTHER_MECHANISM, **_REJECTED},
    State.OTHER_MECHANISM: _REJECTED,
    State.FAILED: {},
}


class Versions(NamedTuple):
    """The frame is an ApiVersions request: respond to it, then call `on_versions_sent` unless it is an error."""


class Pass(NamedTuple):
    """The frame is an ordinary request of an authenticated client."""


class Respond(NamedTuple):
    data: bytes
    """A response without its length."""
    is_authenticated: bool = False
    """Whether the connection is authenticated now, for the first time or again."""


class Block(NamedTuple):
    """Call `work` in a thread, and then `resume` with it."""

    work: Callable[[], "Result"]


class Reject(NamedTuple):
    """Close the connection, after the response."""

    reason: str
    response: bytes | None = None
    is_failed_authentication: bool = False
    """Kafka counts it, and delays the response and the end of the connection."""
    user: str | None = None
    """As the client has claimed, for an audit log."""


class Expire(NamedTuple):
    """Close the connection: its session has expired."""


Decision = Versions | Pass | Respond | Block | Reject | Expire

Result = bytes | SaslError


class _Request(NamedTuple):
    messages: Schema
    correlation_id: int

    def response(self, class_name: str, **values: object) -> bytes:
        messages = self.messages
        header = response_header(self.correlation_id, flexible=messages.response_header_flexible)
        return header + messages.write(messages.new(class_name, **values))


class Authentication:
    def __init__(self, sasl: SaslServer) -> None:
        self._sasl: Final = sasl
        self.state = State.INITIAL
        self.mechanism: str | None = None
        self._exchange: SaslServerExchange | None = None
        self._request: _Request | None = None
        """The SaslAuthenticate request whose exchange runs in a thread."""
        self.principal: Principal | None = None
        """Once it is authenticated."""
        self.session_expires_at: float | None = None
        """In monotonic time; None: the session does not expire."""
        self._reauthentication_started_at: float | None = None

    @property
    def is_reauthentication(self) -> bool:
        return self.principal is not None

    @property
    def request_bytes_max(self) -> int | None:
        """The largest frame that may arrive now; None: as on any listener."""
        if self.state is State.AUTHENTICATED:
            return None
        if self.state in (State.EXCHANGE, State.RAW_EXCHANGE):
            is_large = self.mechanism in _LARGE_MECHANISMS
            return self._sasl.receive_bytes_max if is_large else min(self._sasl.receive_bytes_max, MESSAGE_BYTES_MAX)
        return min(self._sasl.receive_bytes_max, HANDSHAKE_BYTES_MAX)

    def receive(self, frame: bytearray) -> Decision:
        try:
            match self.state:
                case State.INITIAL | State.HANDSHAKE:
                    return self._on_first_requests(frame)
                case State.EXCHANGE:
                    return self._on_authenticate(frame)
                case State.RAW_EXCHANGE:
                    self._request = None
                    return self._continue(bytes(frame))
                case State.AUTHENTICATED:
                    return self._on_authenticated_request(frame)
                case State.OTHER_MECHANISM:
                    return self._reject(
                        f"a mechanism other than {self.mechanism} requested during re-authentication", is_failed=True
                    )
                case State.FAILED:
                    raise AssertionError("a failed connection receives nothing")
        except SerialError as error:
            return self._reject(f"cannot decode a request during authentication ({error or type(error).__name__})")

    def on_versions_sent(self) -> None:
        self._move(Event.VERSIONS_SENT)

    def on_oversized(self) -> Reject:
        return self._reject("invalid receive size during authentication", is_failed=True)

    # Handshake

    def _on_first_requests(self, frame: bytearray) -> Decision:
        header = read_request_header(frame)
        if header.api_key == ApiKey.API_VERSIONS and self.state is State.INITIAL:
            return Versions()
        if header.api_key != ApiKey.SASL_HANDSHAKE:
            return self._reject(f"unexpected request of API {header.api_key} before authentication")
        return self._on_handshake(frame, header)

    def _on_handshake(self, frame: bytearray, header: RequestHeader) -> Decision:
        read = _read(frame, header)
        if read is None:
            return self._reject(f"version {header.api_version} of SaslHandshake is not supported")
        request, message = read
        mechanisms = self._sasl.mechanisms
        mechanism = message.mechanism
        if mechanism not in mechanisms:
            response = request.response(
                "SaslHandshakeResponse", error_code=ErrorCode.unsupported_sasl_mechanism, mechanisms=mechanisms
            )
            return self._reject(f"SASL mechanism {mechanism[:50]!r} is not enabled", response, is_failed=True)
        response = request.response("SaslHandshakeResponse", error_code=ErrorCode.none, mechanisms=mechanisms)
        if self.is_reauthentication and mechanism != self.mechanism:
            self._move(Event.OTHER_MECHANISM_REQUESTED)
            return Respond(response)
        self.mechanism = mechanism
        self._exchange = self._sasl.start(mechanism)
        self._move(Event.HANDSHAKE_ACCEPTED if header.api_version >= 1 else Event.RAW_HANDSHAKE_ACCEPTED)
        return Respond(response)

    # Exchange

    def _on_authenticate(self, frame: bytearray) -> Decision:
        header = read_request_header(frame)
        read = _read(frame, header)
        if header.api_key != ApiKey.SASL_AUTHENTICATE:
            response = None if read is None else _illegal_state_response(*read)
            reason = f"unexpected request of API {header.api_key} during authentication"
            return self._reject(reason, response, is_failed=True)
        if read is None:
            return self._reject(f"version {header.api_version} of SaslAuthenticate is not supported")
        self._request, message = read
        return self._continue(bytes(message.auth_bytes))

    def _continue(self, message: bytes) -> Decision:
        exchange = self._exchange
        assert exchange is not None

        def work() -> Result:
            try:
                return exchange.next(message)
            except SaslError as error:
                return error

        return Block(work) if exchange.blocks(message) else self.resume(work())

    def resume(self, result: Result) -> Decision:
        """The exchange's response to the client's message."""
        exchange = self._exchange
        assert exchange is not None
        if isinstance(result, SaslError):
            return self._on_failed_exchange(result)
        if not exchange.is_complete:
            self._move(Event.CHALLENGE_SENT)
            return Respond(self._challenge(result, 0))
        principal, previous = exchange.principal, self.principal
        if previous is not None and not is_same(principal, previous):
            return self._on_failed_exchange(
                AuthenticationFailed(
                    "Cannot change principals during re-authentication from "
                    f"{previous.type}.{previous.name}: {principal.type}.{principal.name}"
                )
            )
        lifetime_ms = self._start_session(exchange)
        self.principal = principal
        self._exchange = None
        self._move(Event.EXCHANGE_COMPLETED)
        return Respond(self._challenge(result, lifetime_ms), is_authenticated=True)

    def _challenge(self, message: bytes, lifetime_ms: int) -> bytes:
        if self._request is None:
            return message
        return self._request.response(
            "SaslAuthenticateResponse",
            error_code=ErrorCode.none,
            error_message=None,
            auth_bytes=message,
            session_lifetime=timedelta(milliseconds=lifetime_ms),
        )

    def _on_failed_exchange(self, error: SaslError) -> Reject:
        is_public = isinstance(error, AuthenticationFailed)
        if self._request is None:
            # As in Kafka: other errors of raw exchanges are not counted.
            return self._reject(str(error), is_failed=is_public)
        kind = "re-authentication" if self.is_reauthentication else "authentication"
        general = f"Authentication failed during {kind} due to invalid credentials with SASL mechanism {self.mechanism}"
        response = self._request.response(
            "SaslAuthenticateResponse",
            error_code=ErrorCode.sasl_authentication_failed,
            error_message=str(error) if is_public else general,
            auth_bytes=b"",
            session_lifetime=timedelta(0),
        )
        return self._reject(str(error), response, is_failed=True)

    # Session

    def _start_session(self, exchange: SaslServerExchange) -> int:
        """The lifetime that the client learns, in milliseconds; 0 without an end."""
        assert self.mechanism is not None
        limits = []
        if exchange.expires_at_ms is not None:
            limits.append(exchange.expires_at_ms - self._sasl.clock.wall_ms())
        if (reauthentication_ms := self._sasl.reauthentication_ms_max(self.mechanism)) > 0:
            limits.append(reauthentication_ms)
        if not limits:
            self.session_expires_at = None
            return 0
        lifetime_ms = max(0, min(*limits, LIFETIME_MS_MAX))
        self.session_expires_at = self._sasl.clock.monotonic() + lifetime_ms / 1000
        return lifetime_ms

    def _on_authenticated_request(self, frame: bytearray) -> Decision:
        if self.session_expires_at is None:
            return Pass()
        now = self._sasl.clock.monotonic()
        header = read_request_header(frame)
        started_at = self._reauthentication_started_at
        if header.api_key == ApiKey.SASL_HANDSHAKE and (
            started_at is None or now - started_at >= REAUTHENTICATION_INTERVAL_SECONDS_MIN
        ):
            self._reauthentication_started_at = now
            return self._on_handshake(frame, header)
        return Expire() if now >= self.session_expires_at else Pass()

    # States

    def _reject(self, reason: str, response: bytes | None = None, *, is_failed: bool = False) -> Reject:
        self._move(Event.REJECTED)
        # Not every mechanism names a user before the exchange is complete.
        user: str | None = getattr(self._exchange, "claimed_user", None)
        self._exchange = None
        return Reject(reason, response, is_failed, user)

    def _move(self, event: Event) -> None:
        following = TRANSITIONS[self.state].get(event)
        assert following is not None, f"{event.name} in state {self.state.name}"
        self.state = following


def _read(frame: bytearray, header: RequestHeader) -> tuple[_Request, Message] | None:
    """None: the API or its version is not supported. Raises SerialError."""
    api = APIS.get(header.api_key)
    if api is None or not api.served_from <= header.api_version <= api.high:
        return None
    messages = schema(header.api_key, header.api_version)
    start = skip_tagged_fields(frame, header.end) if messages.flexible else header.end
    message, _ = messages.read_request(bytes(frame), start)
    return _Request(messages, header.correlation_id), message


def _illegal_state_response(request: _Request, message: Message) -> bytes | None:
    """Only for the requests that a client may confuse with SaslAuthenticate."""
    if request.messages.api_key != ApiKey.SASL_HANDSHAKE:
        return None
    return request.response("SaslHandshakeResponse", error_code=ErrorCode.illegal_sasl_state, mechanisms=())

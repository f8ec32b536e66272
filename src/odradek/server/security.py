"""How a listener and a connection to another node are secured. The node builds both from its configuration."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from odradek.base.ports import Clock, Executor
from odradek.base.principal import ANONYMOUS, Principal
from odradek.instruments.authentication import AuthenticationCounts

PLAINTEXT: Final = "PLAINTEXT"
TLS_MECHANISM: Final = "SSL"
"""The mechanism of failures that are not of SASL."""


class SaslClientExchange(Protocol):
    """The client side of one SASL exchange."""

    @property
    def mechanism(self) -> str: ...

    @property
    def blocks(self) -> bool:
        """Whether `next` may take milliseconds: then it runs in a thread."""

    def next(self, challenge: bytes = b"") -> bytes | None:
        """The next message to the server; None: the exchange is complete. Raises SaslError."""


class SaslServerExchange(Protocol):
    """The server side of one SASL exchange, without I/O."""

    def blocks(self, response: bytes) -> bool:
        """Whether `next` may take milliseconds for this message: then a listener calls it in a thread."""

    def next(self, response: bytes) -> bytes:
        """The challenge to the client's message.

        Raises AuthenticationFailed, whose text the client receives, or another SaslError.
        """

    @property
    def is_complete(self) -> bool: ...

    @property
    def principal(self) -> Principal:
        """Once it is complete."""

    @property
    def expires_at_ms(self) -> int | None:
        """The end of the credential's life, in wall-clock time. None: it does not expire."""


class AuthenticationFailure(NamedTuple):
    listener_name: str
    peer: str
    mechanism: str | None
    """None: the client has not chosen one."""
    reason: str
    """For logs of this node only."""
    user: str | None = None
    """As the client has claimed. None: the mechanism has not got that far, or names no user."""


class SaslServer(Protocol):
    """The SASL mechanisms of one listener, and the rules of its connections."""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The enabled ones, in the order of `sasl.enabled.mechanisms`."""

    @property
    def receive_bytes_max(self) -> int:
        """`sasl.server.max.receive.size`"""

    @property
    def failure_delay_seconds(self) -> float:
        """`connection.failed.authentication.delay.ms`"""

    @property
    def clock(self) -> Clock: ...

    @property
    def executor(self) -> Executor:
        """For exchanges that block."""

    @property
    def counts(self) -> AuthenticationCounts: ...

    def start(self, mechanism: str) -> SaslServerExchange:
        """`mechanism` is one of `mechanisms`."""

    def reauthentication_ms_max(self, mechanism: str) -> int:
        """`connections.max.reauth.ms`; 0: sessions do not expire."""

    def on_failure(self, failure: AuthenticationFailure) -> None:
        """For an audit log."""


def _anonymous(certificate: bytes | None) -> Principal:
    return ANONYMOUS


def _ignore(failure: AuthenticationFailure) -> None:
    """Without an audit log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSecurity:
    protocol: str = PLAINTEXT
    tls: Callable[[], ssl.SSLContext] | None = None
    """The current context: it changes with renewed files. None: no TLS."""
    principal_of_certificate: Callable[[bytes | None], Principal] = _anonymous
    """Of a client's certificate in DER form, on a listener of protocol SSL. Raises ValueError if no rule matches."""
    sasl: SaslServer | None = None
    on_failure: Callable[[AuthenticationFailure], None] = _ignore
    """Receives failed TLS handshakes, and certificates without a principal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSecurity:
    tls: Callable[[], ssl.SSLContext] | None = None
    new_sasl_exchange: Callable[[], SaslClientExchange] | None = None
    executor: Executor | None = None
    """For exchanges that block."""


UNSECURED_LISTENER: Final = ListenerSecurity()
UNSECURED_PEER: Final = PeerSecurity()

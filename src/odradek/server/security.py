"""How a listener and a connection to another node are secured. The node builds both from its configuration."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from odradek.base.principal import ANONYMOUS, Principal

PLAINTEXT: Final = "PLAINTEXT"


class SaslClientExchange(Protocol):
    """The client side of one SASL exchange."""

    @property
    def mechanism(self) -> str: ...

    def next(self, challenge: bytes = b"") -> bytes | None:
        """The next message to the server; None: the exchange is complete. Raises SaslError."""


class SaslServerExchange(Protocol):
    """The server side of one SASL exchange, without I/O."""

    def next(self, response: bytes) -> bytes:
        """The challenge to the client's message. Raises SaslError, whose text the client may see.

        It may take milliseconds: a listener calls it in a thread if `blocks` is true.
        """

    @property
    def blocks(self) -> bool: ...

    @property
    def is_complete(self) -> bool: ...

    @property
    def principal(self) -> Principal:
        """Once it is complete."""

    @property
    def expires_at_ms(self) -> int | None:
        """The end of the credential's life, in wall-clock time. None: it does not expire."""


class SaslServer(Protocol):
    """The SASL mechanisms of one listener."""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The enabled ones, in the order of `sasl.enabled.mechanisms`."""

    def start(self, mechanism: str) -> SaslServerExchange:
        """`mechanism` is one of `mechanisms`."""

    def reauthentication_ms_max(self, mechanism: str) -> int:
        """`connections.max.reauth.ms`; 0: sessions do not expire."""


def _anonymous(certificate: bytes | None) -> Principal:
    return ANONYMOUS


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSecurity:
    protocol: str = PLAINTEXT
    tls: Callable[[], ssl.SSLContext] | None = None
    """The current context: it changes with renewed files. None: no TLS."""
    principal_of_certificate: Callable[[bytes | None], Principal] = _anonymous
    """Of a client's certificate in DER form, on a listener of protocol SSL. Raises ValueError if no rule matches."""
    sasl: SaslServer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSecurity:
    tls: Callable[[], ssl.SSLContext] | None = None
    new_sasl_exchange: Callable[[], SaslClientExchange] | None = None


UNSECURED_LISTENER: Final = ListenerSecurity()
UNSECURED_PEER: Final = PeerSecurity()

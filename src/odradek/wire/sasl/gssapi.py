"""The server side of GSSAPI (RFC 4752): tokens of Kerberos, then a choice of a security layer.

There is no security layer, as in Kafka: TLS protects the connection. The library of Kerberos is a port.
"""

from collections.abc import Callable
from typing import Final, Protocol

from odradek.base.principal import USER, Principal
from odradek.wire.sasl.exchange import SaslError

_NO_LAYER: Final = 1
_OFFER: Final = bytes((_NO_LAYER, 0, 0, 0))
"""The layers of the server, and the size of its buffer, which is 0 without a layer."""


class GssContext(Protocol):
    """The server's side of one security context. All methods may take milliseconds, and raise SaslError."""

    def step(self, token: bytes) -> bytes:
        """The next token for the client; it may be empty."""

    @property
    def is_complete(self) -> bool: ...

    @property
    def client(self) -> str:
        """The Kerberos principal, once it is complete."""

    def wrap(self, message: bytes) -> bytes:
        """Signs the message without encrypting it."""

    def unwrap(self, message: bytes) -> bytes: ...


class GssapiServer:
    expires_at_ms = None

    def __init__(self, context: GssContext, name_of: Callable[[str], str]) -> None:
        """`name_of` maps a Kerberos principal to a name, and raises ValueError for those that no rule is about."""
        self._context: Final = context
        self._name_of: Final = name_of
        self._has_offered = False
        self._has_failed = False
        self._principal: Principal | None = None

    def blocks(self, response: bytes) -> bool:
        return True

    def next(self, response: bytes) -> bytes:
        if self._has_failed or self._principal is not None:
            raise SaslError("the GSSAPI exchange is over")
        try:
            return self._next(response)
        except SaslError:
            self._has_failed = True
            raise

    @property
    def is_complete(self) -> bool:
        return self._principal is not None

    @property
    def principal(self) -> Principal:
        assert self._principal is not None
        return self._principal

    def _next(self, response: bytes) -> bytes:
        if not self._context.is_complete:
            token = self._context.step(response)
            # Without a token for the client, it has nothing to respond to.
            return token if token or not self._context.is_complete else self._offer()
        if not self._has_offered:
            if response:
                raise SaslError("a GSSAPI client sends data, where the server offers its security layers")
            return self._offer()
        self._on_choice(self._context.unwrap(response))
        return b""

    def _offer(self) -> bytes:
        self._has_offered = True
        return self._context.wrap(_OFFER)

    def _on_choice(self, choice: bytes) -> None:
        """As in Kafka, the authorization ID in it has no effect: the client is who Kerberos says."""
        if len(choice) < len(_OFFER):
            raise SaslError("a GSSAPI client chooses no security layer")
        if choice[0] != _NO_LAYER:
            raise SaslError("a GSSAPI client chooses a security layer that was not offered")
        try:
            self._principal = Principal(USER, self._name_of(self._context.client))
        except ValueError as error:
            raise SaslError(str(error)) from None

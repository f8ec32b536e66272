"""GSSAPI on one listener: the keys of its service, and the names of its clients."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from odradek.config.sasl_config import KERBEROS_RULES, KerberosConfig
from odradek.core.security.java_expressions import InvalidRule
from odradek.core.security.kerberos_names import KerberosNames
from odradek.wire.sasl.exchange import SaslError
from odradek.wire.sasl.gssapi import GssapiServer

if TYPE_CHECKING:
    from odradek.host.kerberos import AcceptedContext

T = TypeVar("T")


class KerberosUnusable(Exception):
    """The node cannot start; one line."""


class KerberosListener:
    def __init__(self, config: KerberosConfig) -> None:
        """Blocks. Raises KerberosUnusable."""
        try:
            from odradek.host import kerberos
        except ImportError as error:
            raise KerberosUnusable(
                f"GSSAPI needs Kerberos and the package gssapi: pip install 'odradek[gssapi]' ({error})"
            ) from None
        try:
            self._names: Final = KerberosNames(config.rules, kerberos.default_realm())
            self._acceptor: Final = kerberos.Acceptor(config.principal, config.keytab)
        except InvalidRule as error:
            raise KerberosUnusable(f"{KERBEROS_RULES}: {error}") from None
        except kerberos.KerberosError as error:
            whose = config.principal or "any principal"
            raise KerberosUnusable(
                f"GSSAPI: no keys of {whose} in {config.keytab or 'the default keytab'}: {error}"
            ) from None
        self._error: Final = kerberos.KerberosError

    def new_exchange(self) -> GssapiServer:
        return GssapiServer(_Context(self._acceptor.new_context(), self._error), self._names.name_of)


class _Context:
    """The port of the exchange."""

    def __init__(self, context: "AcceptedContext", error: type[Exception]) -> None:
        self._context: Final = context
        self._error: Final = error

    def step(self, token: bytes) -> bytes:
        return self._call(lambda: self._context.step(token))

    @property
    def is_complete(self) -> bool:
        return self._context.is_complete

    @property
    def client(self) -> str:
        return self._call(lambda: self._context.client)

    def wrap(self, message: bytes) -> bytes:
        return self._call(lambda: self._context.wrap(message))

    def unwrap(self, message: bytes) -> bytes:
        return self._call(lambda: self._context.unwrap(message))

    def _call(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except self._error as error:
            raise SaslError(f"Kerberos rejects the client: {error}") from None

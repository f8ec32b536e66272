"""Kerberos through the package gssapi, which is an extra: only nodes with GSSAPI import this module."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import gssapi
from gssapi.exceptions import GSSError

T = TypeVar("T")


class KerberosError(Exception):
    """One line, without tokens or keys."""


class Acceptor:
    """The keys of this node's service, which are read once."""

    def __init__(self, principal: str | None, keytab: str | None) -> None:
        """Without a principal, clients may use any key of the keytab; without a keytab, it is that of krb5.conf.

        Raises KerberosError.
        """
        store = None if keytab is None else {b"keytab": f"FILE:{keytab}".encode()}
        self._credentials: Final = _call(lambda: _credentials(principal, store))

    def new_context(self) -> "AcceptedContext":
        return AcceptedContext(self._credentials)


class AcceptedContext:
    """One client. All methods raise KerberosError."""

    def __init__(self, credentials: Any) -> None:
        self._credentials: Final = credentials
        self._context: Any = None
        """None: no token has arrived."""

    def step(self, token: bytes) -> bytes:
        if self._context is None:
            self._context = _call(lambda: gssapi.SecurityContext(creds=self._credentials, usage="accept"))
            # Otherwise a failure is first a token for the client, which tells it why its ticket is rejected.
            self._context.__DEFER_STEP_ERRORS__ = False
        return _call(lambda: self._context.step(token)) or b""

    @property
    def is_complete(self) -> bool:
        return self._context is not None and bool(self._context.complete)

    @property
    def client(self) -> str:
        return _call(lambda: str(self._context.initiator_name))

    def wrap(self, message: bytes) -> bytes:
        return _call(lambda: bytes(self._context.wrap(message, False).message))

    def unwrap(self, message: bytes) -> bytes:
        return _call(lambda: bytes(self._context.unwrap(message).message))


def default_realm() -> str:
    """Of krb5.conf; empty if there is none."""
    try:
        name = gssapi.Name("x", gssapi.NameType.user).canonicalize(gssapi.MechType.kerberos)
    except GSSError:
        return ""
    return str(name).partition("@")[2]


def _credentials(principal: str | None, store: dict[bytes, bytes] | None) -> Any:
    name = None
    if principal is not None:
        name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
    return gssapi.Credentials(name=name, usage="accept", store=store, mechs=[gssapi.MechType.kerberos])


def _call(work: Callable[[], T]) -> T:
    try:
        return work()
    except GSSError as error:
        raise KerberosError(" ".join(str(error).split())) from None

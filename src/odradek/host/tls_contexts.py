"""Contexts of OpenSSL from keys, certificates and rules.

Python loads private keys only from files. They are files in memory, which no other process can open by a name.
"""

import os
import ssl
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from odradek.host.key_stores.pem import to_pem
from odradek.host.key_stores.store import KeyStoreError, Store

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_ROUNDS_MAX: Final = 10
_MISMATCHES: Final = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsRules:
    versions: Sequence[str]
    """Keys of VERSIONS."""
    ciphers: str | None
    """Of TLS 1.2, in OpenSSL's syntax. None: OpenSSL's default."""


def new_server_context(rules: TlsRules, keys: Store, trust: Store | None, client_auth: str) -> ssl.SSLContext:
    """`client_auth` is a key of CLIENT_AUTH. Raises KeyStoreError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _apply(context, rules)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.verify_mode = CLIENT_AUTH[client_auth]
    if context.verify_mode is not ssl.CERT_NONE:
        _load_trust(context, trust)
    _load_keys(context, keys)
    return context


def new_client_context(
    rules: TlsRules, keys: Store | None, trust: Store | None, *, checks_host: bool
) -> ssl.SSLContext:
    """Raises KeyStoreError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _apply(context, rules)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.check_hostname = checks_host
    _load_trust(context, trust)
    if keys is not None:
        _load_keys(context, keys)
    return context


def handshake_problem(server: ssl.SSLContext, client: ssl.SSLContext) -> str | None:
    """Why a client cannot connect to a server, apart from its host name; None if it can. They talk in memory.

    The client context must not check host names.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_side=False),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(_ROUNDS_MAX):
        for side in list(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                return getattr(error, "verify_message", None) or error.reason or "handshake failure"
            sides.remove(side)
        if not sides:
            return None
    return "no end of the handshake"


def _apply(context: ssl.SSLContext, rules: TlsRules) -> None:
    versions = [VERSIONS[name] for name in rules.versions]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if rules.ciphers is not None:
        try:
            context.set_ciphers(rules.ciphers)
        except ssl.SSLError:
            raise KeyStoreError(f"OpenSSL knows none of the cipher suites {rules.ciphers}") from None


def _load_trust(context: ssl.SSLContext, trust: Store | None) -> None:
    # As in Java, every certificate of a trust store is an anchor, not only self-signed ones.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if trust is None:
        context.load_default_certs(
            ssl.Purpose.CLIENT_AUTH if context.protocol == ssl.PROTOCOL_TLS_SERVER else ssl.Purpose.SERVER_AUTH
        )
        return
    for certificate in dict.fromkeys(trust.anchors):
        try:
            context.load_verify_locations(cadata=certificate)
        except ssl.SSLError as error:
            raise KeyStoreError(f"a trusted certificate is invalid ({error.reason or 'not X.509'})") from None


def _load_keys(context: ssl.SSLContext, keys: Store) -> None:
    # OpenSSL keeps one key of each type: as in Java, the first.
    for entry in reversed(keys.keys):
        pem = b"".join(to_pem(b"CERTIFICATE", one) for one in entry.chain) + to_pem(b"PRIVATE KEY", entry.key)
        file = os.memfd_create("key", os.MFD_CLOEXEC)
        try:
            os.write(file, pem)
            context.load_cert_chain(f"/proc/self/fd/{file}", password=b"")
        except ssl.SSLError as error:
            reason = "the private key does not belong to the certificate"
            if error.reason not in _MISMATCHES:
                reason = f"OpenSSL rejects the key or its certificates ({error.reason or 'invalid'})"
            raise KeyStoreError(reason) from None
        finally:
            with suppress(OSError):
                os.ftruncate(file, 0)
            os.close(file)

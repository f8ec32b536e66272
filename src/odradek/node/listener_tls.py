"""TLS of one listener: contexts from its key material, replaced when a file or a config has changed.

Connections that are open keep their context. A change that is invalid has no effect, and neither has one that would
give the listener another identity, unless the configs allow it: those are Kafka's rules.
"""

import hashlib
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from odradek.config.tls_settings import KeyStoreSettings, TlsSettings, TrustStoreSettings
from odradek.core.security.distinguished_names import subject_of
from odradek.host.key_stores.files import read_file
from odradek.host.key_stores.pem import read_pem_certificates, read_pem_keys
from odradek.host.key_stores.reading import read_key_store, read_trust_store
from odradek.host.key_stores.store import KeyStoreError, Store
from odradek.host.tls_contexts import TlsRules, handshake_problem, new_client_context, new_server_context
from odradek.server.tls_errors import TlsError

CANNOT_CONNECT: Final = (
    "A client SSLEngine created with the provided settings can't connect to a server SSLEngine created with those "
    "settings."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What was read, and the contexts made from it."""

    settings: TlsSettings
    digest: bytes
    """Of the content of the stores."""
    keys: Store | None
    server: ssl.SSLContext | None
    """None: this node has no such listener."""
    client: ssl.SSLContext
    expires_at_ms: int | None
    """When the first certificate of the chain expires."""
    _unchecked_client: ssl.SSLContext


class ListenerTls:
    """Everything but the properties of contexts may block, and runs in a thread."""

    def __init__(self, name: str, settings: TlsSettings, *, serves: bool, must_trust_itself: bool) -> None:
        """`must_trust_itself`: clients with the same configs must be able to connect, as brokers do to each other.

        Raises TlsError.
        """
        self.name: Final = name
        self._serves: Final = serves
        self._must_trust_itself: Final = must_trust_itself
        self._material = self._build(settings)
        self._files = _file_states(settings)
        if must_trust_itself and serves:
            self._check_handshake(self._material, self._material)

    @property
    def expires_at_ms(self) -> int | None:
        return self._material.expires_at_ms

    def server_context(self) -> ssl.SSLContext:
        assert self._material.server is not None
        return self._material.server

    def client_context(self) -> ssl.SSLContext:
        return self._material.client

    def has_changed_files(self) -> bool:
        """Whether a file changed since the last call. It may have the same content."""
        states = _file_states(self._material.settings)
        if states == self._files:
            return False
        self._files = states
        return True

    def prepare(self, settings: TlsSettings) -> Material:
        """Checks a change without applying it. Raises TlsError."""
        material = self._build(settings)
        current = self._material
        if material.digest == current.digest and material.settings == current.settings:
            return current
        _check_identity(self.name, current, material)
        if self._must_trust_itself and self._serves:
            self._check_handshake(current, material)
            self._check_handshake(material, current)
        return material

    def apply(self, material: Material) -> bool:
        """Whether that changes anything."""
        is_change = material is not self._material
        self._material = material
        return is_change

    def reload(self) -> Material:
        """As `prepare`, with unchanged configs."""
        return self.prepare(self._material.settings)

    def _build(self, settings: TlsSettings) -> Material:
        store, trusted = settings.key_store, settings.trust_store
        with self._naming("ssl.keystore", None if store is None else store.location):
            key_data = b"" if store is None else _key_store_data(store)
            keys = None if store is None else _parse_keys(store, key_data)
        with self._naming("ssl.truststore", None if trusted is None else trusted.location):
            trust_data = b"" if trusted is None else _trust_store_data(trusted)
            trust = None if trusted is None else _parse_trust(trusted, trust_data)
        rules = TlsRules(versions=settings.versions, ciphers=settings.ciphers)
        try:
            server = None
            if self._serves and keys is not None:
                server = new_server_context(rules, keys, trust, settings.client_auth)
            client = new_client_context(rules, keys, trust, checks_host=settings.checks_host)
            unchecked = new_client_context(rules, keys, trust, checks_host=False) if settings.checks_host else client
        except KeyStoreError as error:
            raise TlsError(f"Listener {self.name}: ssl.keystore or ssl.truststore: {error}") from None
        return Material(
            settings=settings,
            digest=hashlib.sha256(key_data + b"\0" + trust_data).digest(),
            keys=keys,
            server=server,
            client=client,
            expires_at_ms=None if keys is None else _first_expiry_ms(keys),
            _unchecked_client=unchecked,
        )

    @contextmanager
    def _naming(self, prefix: str, location: str | None) -> Iterator[None]:
        """Errors name the listener, the config and the file."""
        try:
            yield
        except KeyStoreError as error:
            text = str(error)
            place = "" if location is None or location in text else f" {location}:"
            raise TlsError(f"Listener {self.name}: {prefix}:{place} {text}") from None

    def _check_handshake(self, server: Material, client: Material) -> None:
        assert server.server is not None
        problem = handshake_problem(server.server, client._unchecked_client)
        if problem is not None:
            raise TlsError(f"Listener {self.name}: {CANNOT_CONNECT} ({problem})")


def _key_store_data(given: KeyStoreSettings) -> bytes:
    if given.location is not None:
        return read_file(given.location)
    return f"{given.certificate_chain}\n{given.key}".encode()


def _trust_store_data(given: TrustStoreSettings) -> bytes:
    return read_file(given.location) if given.location is not None else (given.certificates or "").encode()


def _parse_keys(given: KeyStoreSettings, data: bytes) -> Store:
    if given.location is None:
        chain, key = (given.certificate_chain or "").encode(), (given.key or "").encode()
        return read_pem_keys(chain, key, key_password=given.key_password)
    return read_key_store(data, password=given.password, key_password=given.key_password)


def _parse_trust(given: TrustStoreSettings, data: bytes) -> Store:
    if given.location is None:
        return Store(trusted=read_pem_certificates(data))
    return read_trust_store(data, password=given.password)


def _file_states(settings: TlsSettings) -> list[tuple[int, int, int] | None]:
    stores = (settings.key_store, settings.trust_store)
    return [_file_state(store.location) for store in stores if store is not None and store.location is not None]


def _file_state(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _first_expiry_ms(keys: Store) -> int:
    from cryptography import x509

    certificates = [x509.load_der_x509_certificate(one) for entry in keys.keys for one in entry.chain]
    return min(int(one.not_valid_after_utc.timestamp() * 1000) for one in certificates)


def _check_identity(name: str, current: Material, new: Material) -> None:
    if current.keys is None or new.keys is None:
        if current.keys is not new.keys:
            verb, preposition = ("add", "to") if current.keys is None else ("remove", "from")
            store = "SSL keystore" if verb == "add" else "the SSL keystore"
            was = "no" if verb == "add" else "a"
            raise TlsError(
                f"Cannot {verb} {store} {preposition} an existing listener for which {was} keystore was configured."
            )
        return
    if current.settings.trust_store is None and new.settings.trust_store is not None:
        raise TlsError("Cannot add SSL truststore to an existing listener for which no truststore was configured.")
    before, after = current.keys.keys, new.keys.keys
    allows_names, allows_san = current.settings.allows_dn_changes, current.settings.allows_san_changes
    if len(before) != len(after) and not (allows_names and allows_san):
        raise TlsError(
            f"Keystore entries do not match, existing store contains {len(before)} entries, new store contains "
            f"{len(after)} entries"
        )
    for old, fresh in zip(before, after, strict=False):
        dn, other = subject_of(old.chain[0]), subject_of(fresh.chain[0])
        if not allows_names and dn.lower() != other.lower():
            raise TlsError(
                f"Keystore DistinguishedName does not match:  existing={{alias={old.alias}, DN={dn}}}, "
                f"new={{alias={fresh.alias}, DN={other}}}"
            )
        names, others = _alternative_names(old.chain[0]), _alternative_names(fresh.chain[0])
        if not allows_san and not names <= others:
            raise TlsError(
                f"Keystore SubjectAltNames do not match:  existing={{alias={old.alias}, SAN={sorted(names)}}}, "
                f"new={{alias={fresh.alias}, SAN={sorted(others)}}}"
            )


def _alternative_names(certificate: bytes) -> set[str]:
    from cryptography import x509

    try:
        extensions = x509.load_der_x509_certificate(certificate).extensions
        found = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return set()
    return {f"{type(one).__name__}:{one.value}" for one in found}

"""The `ssl.*` configs of one listener, with Kafka's precedence and Kafka's rules on which ones exclude each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from odradek.config.cipher_suites import parse_cipher_suites
from odradek.config.definitions import BROKER_CONFIGS
from odradek.config.listener_overrides import listener_value
from odradek.config.values import InvalidValue

PEM: Final = "PEM"
STORE_TYPES: Final = ("JKS", "PKCS12", PEM)
VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
# What Java takes for all versions that it supports.
_PROTOCOLS: Final = (*VERSIONS, "TLS")
RELOADED: Final = (
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
"""The configs that may change at run time, with the prefix of a listener."""


class InvalidTls(ValueError):
    """`key` is the config at fault. The text contains no password."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: {reason}")
        self.key: Final = key


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStoreSettings:
    """Either a file, or PEM in the configs themselves."""

    location: str | None
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    certificate_chain: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustStoreSettings:
    location: str | None
    password: str | None = field(default=None, repr=False)
    certificates: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    key_store: KeyStoreSettings | None
    trust_store: TrustStoreSettings | None
    """None: the system's certificate authorities, as Java has its own."""
    client_auth: str
    versions: Sequence[str]
    ciphers: str | None
    checks_host: bool
    """Whether the certificates of other nodes must be for their hosts."""
    allows_dn_changes: bool
    allows_san_changes: bool
    warnings: Sequence[str] = ()


def parse_tls_settings(texts: Mapping[str, str], listener_name: str, protocol: str) -> TlsSettings:
    """`protocol` is SSL or SASL_SSL. Raises InvalidTls."""
    values = _Values(texts, listener_name)
    versions, ciphers, warnings = _versions_and_ciphers(values)
    client_auth, warning = _client_auth(values, protocol)
    return TlsSettings(
        key_store=_key_store(values),
        trust_store=_trust_store(values),
        client_auth=client_auth,
        versions=versions,
        ciphers=ciphers,
        checks_host=_checks_host(values),
        allows_dn_changes=values["ssl.allow.dn.changes"],
        allows_san_changes=values["ssl.allow.san.changes"],
        warnings=(*warnings, *warning),
    )


class _Values:
    def __init__(self, texts: Mapping[str, str], listener_name: str) -> None:
        self._texts: Final = texts
        self._listener_name: Final = listener_name

    def __getitem__(self, key: str) -> Any:
        """The typed value. Raises InvalidTls."""
        text = listener_value(self._texts, self._listener_name, key)
        definition = BROKER_CONFIGS[key]
        try:
            return definition.default if text is None else definition.parse(text)
        except InvalidValue as invalid:
            raise InvalidTls(key, str(invalid)) from None

    def has_own(self, key: str) -> bool:
        """Whether it is set for this listener alone."""
        return f"listener.name.{self._listener_name.lower()}.{key}" in self._texts


def _key_store(values: _Values) -> KeyStoreSettings | None:
    kind, path, password = _store(values, "ssl.keystore")
    key, chain, key_password = (
        values["ssl.keystore.key"],
        values["ssl.keystore.certificate.chain"],
        values["ssl.key.password"],
    )
    if key is not None:
        if kind != PEM:
            raise InvalidTls(
                "ssl.keystore.key",
                f"SSL private key can be specified only for PEM, but key store type is {kind}; "
                "set ssl.keystore.type=PEM",
            )
        if chain is None:
            raise InvalidTls(
                "ssl.keystore.key",
                "SSL private key is specified, but certificate chain is not specified; "
                "set ssl.keystore.certificate.chain",
            )
        if path is not None:
            raise InvalidTls("ssl.keystore.key", "Both SSL key store location and separate private key are specified.")
        _reject_pem_password("ssl.keystore", password)
        return KeyStoreSettings(location=None, key_password=key_password, certificate_chain=chain, key=key)
    if chain is not None:
        raise InvalidTls(
            "ssl.keystore.certificate.chain",
            "SSL certificate chain is specified, but private key is not specified; set ssl.keystore.key",
        )
    if path is None:
        if password is not None:
            raise InvalidTls(
                "ssl.keystore.password", "SSL key store is not specified, but key store password is specified."
            )
        return None
    if kind == PEM:
        _reject_pem_password("ssl.keystore", password)
    elif password is None:
        raise InvalidTls(
            "ssl.keystore.location",
            "SSL key store is specified, but key store password is not specified; set ssl.keystore.password, or "
            "ssl.keystore.type=PEM for PEM files",
        )
    return KeyStoreSettings(location=path, password=password, key_password=key_password)


def _trust_store(values: _Values) -> TrustStoreSettings | None:
    kind, path, password = _store(values, "ssl.truststore")
    certificates = values["ssl.truststore.certificates"]
    if certificates is not None:
        if kind != PEM:
            raise InvalidTls(
                "ssl.truststore.certificates",
                f"SSL trust store certs can be specified only for PEM, but trust store type is {kind}; "
                "set ssl.truststore.type=PEM",
            )
        if path is not None:
            raise InvalidTls(
                "ssl.truststore.certificates",
                "Both SSL trust store location and separate trust certificates are specified.",
            )
        _reject_pem_password("ssl.truststore", password)
        return TrustStoreSettings(location=None, certificates=certificates)
    if path is None:
        if password is not None:
            raise InvalidTls(
                "ssl.truststore.password", "SSL trust store is not specified, but trust store password is specified."
            )
        return None
    if kind == PEM:
        _reject_pem_password("ssl.truststore", password)
    return TrustStoreSettings(location=path, password=password)


def _store(values: _Values, prefix: str) -> tuple[str, str | None, str | None]:
    kind = str(values[f"{prefix}.type"])
    if kind.upper() not in STORE_TYPES:
        raise InvalidTls(f"{prefix}.type", f"{kind} is not supported; use one of {', '.join(STORE_TYPES)}")
    return kind.upper(), values[f"{prefix}.location"], values[f"{prefix}.password"]


def _reject_pem_password(prefix: str, password: str | None) -> None:
    if password is not None:
        store = "key" if prefix == "ssl.keystore" else "trust"
        raise InvalidTls(f"{prefix}.password", f"SSL {store} store password cannot be specified with PEM format.")


def _versions_and_ciphers(values: _Values) -> tuple[Sequence[str], str | None, list[str]]:
    protocol = values["ssl.protocol"]
    if protocol not in _PROTOCOLS:
        raise InvalidTls("ssl.protocol", f"{protocol} is not supported; use TLSv1.3 or TLSv1.2")
    enabled = values["ssl.enabled.protocols"] or VERSIONS
    for version in enabled:
        if version not in VERSIONS:
            raise InvalidTls("ssl.enabled.protocols", f"{version} is not supported; use TLSv1.2 and TLSv1.3")
    suites = parse_cipher_suites(values["ssl.cipher.suites"])
    if suites.unknown:
        raise InvalidTls("ssl.cipher.suites", f"unsupported cipher suite {suites.unknown[0]}")
    if not suites.tls12 and not suites.tls13:
        return tuple(enabled), None, []
    # As in Java: a version without a cipher suite cannot be negotiated.
    usable = [version for version in enabled if (suites.tls13 if version == "TLSv1.3" else suites.tls12)]
    if not usable:
        raise InvalidTls("ssl.cipher.suites", f"no cipher suite for {' or '.join(enabled)} of ssl.enabled.protocols")
    warnings = []
    if "TLSv1.3" in usable and len(suites.tls13) < 3:
        warnings.append(
            "ssl.cipher.suites: the suites of TLS 1.3 cannot be restricted here: all three of them are enabled"
        )
    return tuple(usable), ":".join(suites.tls12) or None, warnings


def _client_auth(values: _Values, protocol: str) -> tuple[str, list[str]]:
    text = str(values["ssl.client.auth"])
    if protocol == "SASL_SSL" and not values.has_own("ssl.client.auth"):
        # SASL authenticates the clients.
        ignored = [] if text == "none" else ["ssl.client.auth has no effect on SASL_SSL listeners without their prefix"]
        return "none", ignored
    return text, []


def _checks_host(values: _Values) -> bool:
    algorithm = values["ssl.endpoint.identification.algorithm"] or ""
    if algorithm.lower() not in ("", "https"):
        raise InvalidTls(
            "ssl.endpoint.identification.algorithm", f"{algorithm} is not supported; use https, or leave it empty"
        )
    return algorithm.lower() == "https"

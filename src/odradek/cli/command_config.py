"""Reads the `--command-config` file: client properties, as Kafka's own tools take them.

Only the TLS and SASL properties are used; properties of producers and consumers are ignored. Error messages never
contain a value, because it may be secret. Config providers replace variables in the values, as in Kafka's tools.
"""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from odradek.client.security import Security, Tls
from odradek.client.security_configs import PROTOCOL, WrongConfig, security_of
from odradek.config.jaas_file import read_login_file
from odradek.config.properties import parse_properties
from odradek.config.providers import hide, resolve
from odradek.host.provider_sources import HostProviderSources
from odradek.text.errors import UserError, nearest
from odradek.text.terminal import say

OPTION: Final = "--command-config"

_SUPPORTED: Final = (
    PROTOCOL,
    "sasl.mechanism",
    "sasl.jaas.config",
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
)
# Without effect here: TLS negotiates the newest version that both sides support, at least 1.2; the others configure
# Java, Kerberos or the checks of a token by the client.
_IGNORED: Final = (
    "ssl.protocol",
    "ssl.enabled.protocols",
    "ssl.provider",
    "ssl.trustmanager.algorithm",
    "ssl.keymanager.algorithm",
    "ssl.secure.random.implementation",
    "sasl.login.",
    "sasl.kerberos.",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.jwt.validator.class",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
)
_REJECTED: Final = {
    "sasl.username": "not supported. Use sasl.jaas.config with username and password.",
    "sasl.password": "not supported. Use sasl.jaas.config with username and password.",
    "ssl.ca.location": "not supported. Use ssl.truststore.location with ssl.truststore.type=PEM.",
    "ssl.cipher.suites": "not supported. Remove it: OpenSSL's default cipher suites are used.",
}
_CHECKED_PREFIXES: Final = ("security.", "sasl.", "ssl.")


def security_of_file(file: Path) -> Security:
    """Read the security settings of a client. Raises UserError with file, line, problem and remedy."""
    return _CommandConfig(file).security()


class _CommandConfig:
    def __init__(self, file: Path) -> None:
        self._file: Final = file
        self._secrets: frozenset[str] = frozenset()
        try:
            properties, malformed = parse_properties(file.read_text())
        except UnicodeDecodeError:
            raise UserError(f"{OPTION} {str(file)!r} is not a text file. Use a file of key=value lines.") from None
        for one in malformed:
            # The malformed text may be a password, so the message does not repeat it.
            raise self._error_at(one.line, r"invalid escape sequence. Write \\ for a backslash.")
        self._lines: Final = {one.key: one.line for one in properties}
        self._configs: Final = self._resolve({one.key: one.value for one in properties})

    def _resolve(self, configs: dict[str, str]) -> dict[str, str]:
        """Replace the variables of config providers."""
        resolution = resolve(configs, HostProviderSources())
        for key, message in resolution.errors:
            raise self._error_at(self._lines[key], f"{message}.")
        for key, message in resolution.warnings:
            say(f"warning: {OPTION} {self._file}:{self._lines[key]}: {message}.")
        self._secrets = resolution.secrets
        return resolution.texts

    def security(self) -> Security:
        for name, line in self._lines.items():
            if name.startswith(_CHECKED_PREFIXES) and name not in _SUPPORTED and not name.startswith(_IGNORED):
                raise self._error_at(line, f"{name}: {_advise(name)}")
        unused = next((name for name in _SUPPORTED if name in self._configs), None)
        if unused is not None and PROTOCOL not in self._configs:
            raise self._error_at(
                self._lines[unused], f"{unused} has no effect without {PROTOCOL}. Set {PROTOCOL} to SSL or SASL_SSL."
            )
        try:
            found = security_of(self._configs, read_login_file(HostProviderSources()))
            if found.tls is not None:
                found = replace(found, tls=_read_stores(found.tls, self._configs))
        except WrongConfig as error:
            line = self._lines.get(error.name, self._lines[PROTOCOL])
            raise self._error_at(line, str(error)) from None
        return found

    def _error_at(self, line: int, what: str) -> UserError:
        return UserError(f"{OPTION} {self._file}:{line}: {hide(what, self._secrets)}")


def _advise(name: str) -> str:
    advice = _REJECTED.get(name)
    if advice is not None:
        return advice
    suggestion = nearest(name, [one for one in _SUPPORTED if not one.endswith(".class")])
    return f"unknown property. Did you mean {suggestion}?" if suggestion else "not supported. Remove it."


def _read_stores(tls: Tls, configs: Mapping[str, str]) -> Tls:
    """Read Java's key stores, and check all certificates before connecting: a failed connection could not name the
    property.
    """
    for store in ("truststore", "keystore"):
        location = configs.get(f"ssl.{store}.location")
        if location is not None and not Path(location).is_file():
            raise WrongConfig(f"ssl.{store}.location", f"file not found: {location!r}. Check the path.")
    # Imported only for files with TLS settings, which keeps the start of other commands fast.
    from odradek.client.java_key_stores import InvalidStore, as_pem

    try:
        tls = as_pem(tls)
    except InvalidStore as error:
        raise WrongConfig(error.config, f"{error}.") from None
    authorities = Tls(authorities_file=tls.authorities_file, authorities=tls.authorities)
    own = Tls(own_file=tls.own_file, own=tls.own, key_password=tls.key_password)
    _check_pem(
        authorities.context,
        configs,
        ("ssl.truststore.location", "ssl.truststore.certificates"),
        "contains no PEM certificates.",
    )
    _check_pem(
        own.context,
        configs,
        ("ssl.keystore.location", "ssl.keystore.certificate.chain"),
        "contains no PEM certificate with its private key, or ssl.key.password is wrong.",
    )
    return tls


def _check_pem(context: Callable[[], object], configs: Mapping[str, str], names: tuple[str, str], problem: str) -> None:
    given = next((name for name in names if name in configs), None)
    if given is None:
        return
    try:
        context()
    except (ssl.SSLError, ValueError):
        raise WrongConfig(given, problem) from None
    except OSError as error:
        raise WrongConfig(given, f"cannot read the file ({error.strerror}).") from None

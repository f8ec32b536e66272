"""The SASL configs of one listener: mechanisms, JAAS entries, sessions. Pure.

As in Kafka, `sasl.jaas.config` counts only with the prefix of a listener and a mechanism. Where it is not given, a
context of the JAAS file applies: LISTENER.KafkaServer, or else KafkaServer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from odradek.config.definitions import BROKER_CONFIGS
from odradek.config.jaas import JaasEntry, JaasError, parse_login
from odradek.config.jaas_file import LoginFile, server_contexts
from odradek.config.listener_overrides import listener_value
from odradek.config.values import ConfigValue, InvalidValue

SASL_PROTOCOLS: Final = ("SASL_PLAINTEXT", "SASL_SSL")
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER, GSSAPI)
PEER_MECHANISMS: Final = MECHANISMS[:-1]
"""With which this node can authenticate to other nodes."""
KERBEROS_RULES: Final = "sasl.kerberos.principal.to.local.rules"
_SERVICE_NAME: Final = "sasl.kerberos.service.name"
ENABLED: Final = "sasl.enabled.mechanisms"
JAAS: Final = "sasl.jaas.config"
_CALLBACKS: Final = "sasl.server.callback.handler.class"
_PACKAGE: Final = "org.apache.kafka.common.security"
_LOGIN_CALLBACKS: Final = "sasl.login.callback.handler.class"
_LOGIN_CLASS: Final = "sasl.login.class"
_LOGIN_CLASSES: Final = {
    OAUTHBEARER: f"{_PACKAGE}.oauthbearer.internals.OAuthBearerRefreshingLogin",
    GSSAPI: f"{_PACKAGE}.kerberos.KerberosLogin",
}
_DEFAULT_LOGIN_CLASS: Final = f"{_PACKAGE}.authenticator.DefaultLogin"
_CLIENT_CALLBACKS: Final = "sasl.client.callback.handler.class"
_CLIENT_HANDLERS: Final = {
    "SCRAM-SHA-256": f"{_PACKAGE}.authenticator.SaslClientCallbackHandler",
    "SCRAM-SHA-512": f"{_PACKAGE}.authenticator.SaslClientCallbackHandler",
    "PLAIN": f"{_PACKAGE}.authenticator.SaslClientCallbackHandler",
    OAUTHBEARER: f"{_PACKAGE}.oauthbearer.internals.OAuthBearerSaslClientCallbackHandler",
    GSSAPI: f"{_PACKAGE}.kerberos.KerberosClientCallbackHandler",
}
_LOGIN_HANDLERS: Final = {OAUTHBEARER: f"{_PACKAGE}.oauthbearer.OAuthBearerLoginCallbackHandler"}
_HANDLERS: Final = {
    "PLAIN": f"{_PACKAGE}.plain.internals.PlainServerCallbackHandler",
    "SCRAM-SHA-256": f"{_PACKAGE}.scram.internals.ScramServerCallbackHandler",
    "SCRAM-SHA-512": f"{_PACKAGE}.scram.internals.ScramServerCallbackHandler",
    OAUTHBEARER: f"{_PACKAGE}.oauthbearer.OAuthBearerValidatorCallbackHandler",
    GSSAPI: f"{_PACKAGE}.authenticator.SaslServerCallbackHandler",
}
"""Kafka's own callback handlers, which do what happens here without one."""


class SaslConfigError(ValueError):
    """The message starts with the name of the config, and contains no secret."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: {reason}")
        self.key: Final = key


@dataclass(frozen=True, slots=True)
class OAuthConfig:
    """How tokens are verified."""

    jwks_url: str | None
    """None: tokens without a signature are accepted."""
    refresh_ms: int
    issuer: str | None
    audiences: tuple[str, ...]
    skew_seconds: int
    subject_claim: str
    scope_claim: str


@dataclass(frozen=True, slots=True)
class KerberosConfig:
    principal: str | None
    """None: clients may use any key of the keytab."""
    keytab: str | None
    """None: that of krb5.conf."""
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MechanismConfig:
    name: str
    login: JaasEntry = field(repr=False)
    reauthentication_ms_max: int
    """`connections.max.reauth.ms`"""
    oauth: OAuthConfig | None = None
    """Of OAUTHBEARER."""
    kerberos: KerberosConfig | None = None
    """Of GSSAPI."""


@dataclass(frozen=True, slots=True)
class SaslConfig:
    """Of one listener."""

    mechanisms: Mapping[str, MechanismConfig]
    receive_bytes_max: int


@dataclass(frozen=True, slots=True)
class SaslLogin:
    """How this node authenticates to a listener of another node."""

    mechanism: str
    username: str = ""
    password: str = field(repr=False, default="")
    has_token: bool = False
    """The username is the ID of a delegation token."""
    token_url: str = ""
    """Of OAUTHBEARER: a file."""


def read_sasl(texts: Mapping[str, str], listener_name: str, login_file: LoginFile | None = None) -> SaslConfig:
    """Raises SaslConfigError."""
    names = _value(texts, listener_name, ENABLED)
    assert isinstance(names, tuple)
    mechanisms = {str(name): _read_mechanism(texts, listener_name, str(name), login_file) for name in names}
    if not mechanisms:
        raise SaslConfigError(ENABLED, f"listener {listener_name} has no SASL mechanism")
    size = _value(texts, listener_name, "sasl.server.max.receive.size")
    assert isinstance(size, int)
    return SaslConfig(mechanisms, size)


def read_login(
    texts: Mapping[str, str],
    listener_name: str,
    mechanism: str,
    mechanism_key: str,
    login_file: LoginFile | None = None,
) -> SaslLogin:
    """`mechanism_key` names the config with the mechanism. Raises SaslConfigError."""
    _check_mechanism(mechanism, mechanism_key, PEER_MECHANISMS)
    _check_handler(texts, listener_name, mechanism, _LOGIN_CALLBACKS, _LOGIN_HANDLERS.get(mechanism))
    key = jaas_key(listener_name, mechanism)
    options = _read_jaas(texts, listener_name, mechanism, login_file).options
    if mechanism == OAUTHBEARER:
        return SaslLogin(mechanism, token_url=_read_token_url(texts, listener_name))
    for option in ("username", "password"):
        if not options.get(option):
            raise SaslConfigError(key, f"no {option}, with which this node authenticates to other nodes")
    return SaslLogin(
        mechanism, options["username"], options["password"], options.get("tokenauth", "").lower() == "true"
    )


def jaas_key(listener_name: str, mechanism: str) -> str:
    return f"listener.name.{listener_name.lower()}.{mechanism.lower()}.{JAAS}"


def _read_mechanism(
    texts: Mapping[str, str], listener_name: str, mechanism: str, login_file: LoginFile | None
) -> MechanismConfig:
    _check_mechanism(mechanism, ENABLED, MECHANISMS)
    _check_handler(texts, listener_name, mechanism, _CALLBACKS, _HANDLERS[mechanism])
    login_class = _LOGIN_CLASSES.get(mechanism, _DEFAULT_LOGIN_CLASS)
    _check_handler(texts, listener_name, mechanism, _LOGIN_CLASS, login_class)
    _check_handler(texts, listener_name, mechanism, _CLIENT_CALLBACKS, _CLIENT_HANDLERS[mechanism])
    login = _read_jaas(texts, listener_name, mechanism, login_file)
    reauthentication = _value(texts, listener_name, "connections.max.reauth.ms", mechanism)
    assert isinstance(reauthentication, int)
    oauth = _read_oauth(texts, listener_name) if mechanism == OAUTHBEARER else None
    kerberos = _read_kerberos(texts, listener_name, login) if mechanism == GSSAPI else None
    return MechanismConfig(mechanism, login, reauthentication, oauth, kerberos)


def _read_oauth(texts: Mapping[str, str], listener_name: str) -> OAuthConfig:
    def value(name: str) -> Any:
        return _value(texts, listener_name, f"sasl.oauthbearer.{name}", OAUTHBEARER)

    url, is_unsecured = value("jwks.endpoint.url"), value("unsecured.tokens.enable")
    key = "sasl.oauthbearer.jwks.endpoint.url"
    if url and is_unsecured:
        raise SaslConfigError(
            "sasl.oauthbearer.unsecured.tokens.enable", f"set either this or {key} on listener {listener_name}"
        )
    if not url and not is_unsecured:
        raise SaslConfigError(key, f"missing; OAUTHBEARER on listener {listener_name} needs the keys of its tokens")
    if url and urlsplit(url).scheme not in ("https", "http", "file"):
        raise SaslConfigError(key, "expected a URL with https, http or file")
    return OAuthConfig(
        jwks_url=url or None,
        refresh_ms=max(1, value("jwks.endpoint.refresh.ms")),
        issuer=value("expected.issuer"),
        audiences=tuple(value("expected.audience") or ()),
        skew_seconds=value("clock.skew.seconds"),
        subject_claim=value("sub.claim.name"),
        scope_claim=value("scope.claim.name"),
    )


def _read_kerberos(texts: Mapping[str, str], listener_name: str, login: JaasEntry) -> KerberosConfig:
    key = jaas_key(listener_name, GSSAPI)
    config, option = _value(texts, listener_name, _SERVICE_NAME), login.options.get("serviceName")
    if not config and not option:
        raise SaslConfigError(
            _SERVICE_NAME, f"missing; set the name of the service, as kafka (listener {listener_name})"
        )
    if config and option and config != option:
        raise SaslConfigError(_SERVICE_NAME, f"{key} has another serviceName")
    if login.options.get("useKeyTab", "").lower() != "true":
        raise SaslConfigError(
            key, "a node logs in with a keytab; add useKeyTab=true storeKey=true keyTab=… principal=…"
        )
    principal = login.options.get("principal", "*")
    rules = _value(texts, listener_name, KERBEROS_RULES, GSSAPI)
    assert isinstance(rules, tuple)
    return KerberosConfig(
        principal=None if principal == "*" else principal,
        keytab=login.options.get("keyTab", "").removeprefix("file:") or None,
        rules=tuple(map(str, rules)),
    )


def _read_token_url(texts: Mapping[str, str], listener_name: str) -> str:
    key = "sasl.oauthbearer.token.endpoint.url"
    url = _value(texts, listener_name, key, OAUTHBEARER)
    if not isinstance(url, str) or urlsplit(url).scheme != "file":
        raise SaslConfigError(key, "expected a file URL of this node's token, as only files are supported")
    return url


def _check_handler(texts: Mapping[str, str], listener_name: str, mechanism: str, key: str, known: str | None) -> None:
    """Kafka's own class for the mechanism does what happens here without one."""
    handler = listener_value(texts, listener_name, key, mechanism=mechanism)
    if handler and handler != known:
        advice = "remove the line" if known is None else f"remove the line, or use {known}"
        raise SaslConfigError(key, f"cannot load the Java class {handler[:200]} for {mechanism}; {advice}")


def _check_mechanism(mechanism: str, key: str, known: tuple[str, ...]) -> None:
    if mechanism not in known:
        raise SaslConfigError(key, f"{mechanism} is not supported; use {', '.join(known[:-1])} or {known[-1]}")


def _read_jaas(texts: Mapping[str, str], listener_name: str, mechanism: str, login_file: LoginFile | None) -> JaasEntry:
    key = jaas_key(listener_name, mechanism)
    text, contexts = texts.get(key), server_contexts(listener_name)
    try:
        if text is not None:
            return parse_login(text, mechanism)
        entry = None if login_file is None else login_file.find(contexts, mechanism)
    except JaasError as error:
        raise SaslConfigError(key, str(error)) from None
    if entry is None:
        place = ", or name a JAAS file in KAFKA_OPTS"
        if login_file is not None:
            place = f", or a context {' or '.join(contexts)} to {login_file.path}"
        raise SaslConfigError(key, f"missing; add it with a login module for {mechanism}{place}")
    return entry


def _value(texts: Mapping[str, str], listener_name: str, key: str, mechanism: str | None = None) -> ConfigValue:
    definition = BROKER_CONFIGS[key]
    text = listener_value(texts, listener_name, key, mechanism=mechanism)
    try:
        return definition.default if text is None else definition.parse(text)
    except InvalidValue as invalid:
        raise SaslConfigError(key, f"{invalid} (listener {listener_name})") from None

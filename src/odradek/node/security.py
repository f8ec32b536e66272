"""The security of a node's listeners and of its connections to other nodes, from its configuration.

Its key material is read before the node binds an address, and again when a file or a dynamic config changes.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from odradek.base.errors import KafkaError
from odradek.base.ports import Clock, Executor, Pool, Random
from odradek.base.principal import ANONYMOUS, USER, Principal
from odradek.config.alteration import reconfiguration_error
from odradek.config.listeners import HTTP, Listener
from odradek.config.node_config import NodeConfig
from odradek.config.sasl_config import SASL_PROTOCOLS, SaslLogin
from odradek.config.tls_settings import InvalidTls, TlsSettings, parse_tls_settings
from odradek.core.security.distinguished_names import subject_of
from odradek.core.security.java_expressions import InvalidRule
from odradek.core.security.principal_mapping import PrincipalMapping
from odradek.node.kerberos import KerberosUnusable
from odradek.node.sasl import NodeSasl
from odradek.observe.endpoint import HttpTls
from odradek.server.periodic import Periodic
from odradek.server.security import AuthenticationFailure, ListenerSecurity, PeerSecurity, SaslServer
from odradek.server.tls_connection import Handshakes
from odradek.server.tls_errors import TlsError

if TYPE_CHECKING:
    from odradek.node.listener_tls import ListenerTls

logger = logging.getLogger(__name__)

CHECK_INTERVAL_MS: Final = 5_000
EXPIRY_WARNING_DAYS: Final = 30
_DAY_MS: Final = 24 * 60 * 60 * 1000
_WITH_TLS: Final = ("SSL", "SASL_SSL")


class SecurityError(Exception):
    """The node cannot start with these configs; one line."""


class NodeSecurity:
    def __init__(self, config: NodeConfig, *, clock: Clock, random: Random, executor: Executor) -> None:
        self._config: Final = config
        self.sasl: Final = NodeSasl(config, clock=clock, random=random, executor=executor)
        self._clock: Final = clock
        self._executor: Final = executor
        self._tls: Final[dict[str, ListenerTls]] = {}
        self._mapping: PrincipalMapping | None = None
        self._current = config
        self._warned_at_ms: Final[dict[str, int]] = {}
        self.on_failure: Callable[[AuthenticationFailure], None] = lambda failure: None
        """Receives failed logins, for the audit log."""
        self.sasl.on_failure = lambda failure: self.on_failure(failure)

    async def load(self) -> None:
        """Reads the key material. Raises SecurityError."""
        rules = self._config.effective("ssl.principal.mapping.rules")
        try:
            self._mapping = PrincipalMapping(str(rules))
        except InvalidRule as error:
            raise SecurityError(f"ssl.principal.mapping.rules: {error}") from None
        with_sasl = [one.name for one in self._config.listeners if one.security_protocol in SASL_PROTOCOLS]
        if with_sasl:
            await self._executor.run(partial(self._load_sasl, with_sasl), pool=Pool.HANDSHAKE)
        names = [name for name in self._names() if self._protocol(name) in _WITH_TLS]
        if names:
            await self._executor.run(partial(self._load, names), pool=Pool.HANDSHAKE)
            self._warn_of_expiry()

    def _load_sasl(self, names: Iterable[str]) -> None:
        try:
            self.sasl.load(names)
        except KerberosUnusable as error:
            raise SecurityError(str(error)) from None

    def _load(self, names: Iterable[str]) -> None:
        # Imported only by nodes with TLS.
        from odradek.node.listener_tls import ListenerTls

        own = {HTTP, *(one.name for one in self._config.listeners)}
        for name in names:
            try:
                self._tls[name] = ListenerTls(
                    name,
                    self._settings(self._config, name),
                    serves=name in own,
                    must_trust_itself=name == self._config.inter_broker_listener_name,
                )
            except (TlsError, InvalidTls) as error:
                raise SecurityError(str(error)) from None

    def start_periodic_tasks(self, periodic: Periodic) -> None:
        if self._tls:
            periodic.every("key material", lambda: CHECK_INTERVAL_MS, self.refresh)

    # Listeners and peers

    def listener_security(self, listener: Listener) -> ListenerSecurity:
        tls = self._tls.get(listener.name)
        return ListenerSecurity(
            protocol=listener.security_protocol,
            tls=None if tls is None else tls.server_context,
            principal_of_certificate=self._principal_of_certificate,
            sasl=self._sasl_server(listener),
            on_failure=lambda failure: self.on_failure(failure),
        )

    def http(self) -> HttpTls | None:
        """Of the HTTP endpoint. None: it has no TLS."""
        tls = self._tls.get(HTTP) if self._serves_https else None
        if tls is None:
            return None
        handshakes = Handshakes(self._executor, self._clock.monotonic)
        return HttpTls(tls.server_context, handshakes, lambda failure: self.on_failure(failure))

    @property
    def inter_broker(self) -> PeerSecurity:
        """Of connections to other brokers: that of the inter-broker listener."""
        return self._peer_security(self._config.inter_broker_listener_name, self.sasl.inter_broker_login)

    @property
    def to_controllers(self) -> PeerSecurity:
        """Of connections to controllers: that of the first of `controller.listener.names`."""
        return self._peer_security(self._config.controller_listener_names[0], self.sasl.controller_login)

    def _peer_security(self, listener_name: str, find_login: Callable[[], SaslLogin]) -> PeerSecurity:
        tls = self._tls.get(listener_name)
        context = None if tls is None else tls.client_context
        if self._protocol(listener_name) not in SASL_PROTOCOLS:
            return PeerSecurity(tls=context)
        login = find_login()
        return PeerSecurity(
            tls=context, new_sasl_exchange=lambda: self.sasl.new_client_exchange(login), executor=self.sasl.threads
        )

    def _principal_of_certificate(self, certificate: bytes | None) -> Principal:
        """Raises ValueError."""
        if certificate is None:
            return ANONYMOUS
        assert self._mapping is not None
        return Principal(USER, self._mapping.name_of(subject_of(certificate)))

    def _protocol(self, listener_name: str) -> str:
        if listener_name == HTTP and self._serves_https:
            return "SSL"
        return self._config.security_protocols.get(listener_name, "PLAINTEXT")

    def _names(self) -> list[str]:
        names = [one.name for one in self._config.listeners]
        if self._config.is_broker:
            names.append(self._config.inter_broker_listener_name)
        if self._serves_https:
            names.append(HTTP)
        return list(dict.fromkeys((*names, *self._config.controller_listener_names[:1])))

    @property
    def _serves_https(self) -> bool:
        return self._config.http_address is not None and self._config.http_security_protocol == "SSL"

    def _settings(self, config: NodeConfig, name: str) -> TlsSettings:
        return parse_tls_settings(config.effective_values, name, self._protocol(name))

    # SASL

    def _sasl_server(self, listener: Listener) -> SaslServer | None:
        """None: the listener's protocol is not SASL_PLAINTEXT or SASL_SSL."""
        return self.sasl.listener(listener.name) if listener.security_protocol in SASL_PROTOCOLS else None

    # Changes at run time

    def on_config(self, config: NodeConfig, periodic: Periodic) -> None:
        """Applies dynamic configs of listeners."""
        former, self._current = self._current, config
        changed = [name for name in self._tls if _texts_of(former, name) != _texts_of(config, name)]
        if changed:
            periodic.once("key material", self._reconfigure(changed))

    async def check(self, config: NodeConfig) -> None:
        """Whether the key material of these configs can be used. Raises KafkaError."""
        for name, tls in self._tls.items():
            if _texts_of(self._current, name) != _texts_of(config, name):
                try:
                    settings = self._settings(config, name)
                    await self._executor.run(partial(tls.prepare, settings), pool=Pool.HANDSHAKE)
                except (TlsError, InvalidTls) as error:
                    raise _rejection(str(error)) from None

    async def refresh(self) -> None:
        """Applies files that have changed."""
        await self._executor.run(self._refresh, pool=Pool.HANDSHAKE)
        self._warn_of_expiry()

    def _refresh(self) -> None:
        for name, tls in self._tls.items():
            if tls.has_changed_files():
                self._apply(name, tls, self._settings(self._current, name))

    async def _reconfigure(self, names: list[str]) -> None:
        for name in names:
            settings = self._settings(self._current, name)
            await self._executor.run(partial(self._apply, name, self._tls[name], settings), pool=Pool.HANDSHAKE)

    def _apply(self, name: str, tls: "ListenerTls", settings: TlsSettings) -> None:
        try:
            if tls.apply(tls.prepare(settings)):
                logger.info("Applied new key material: listener=%s", name)
        except (TlsError, InvalidTls) as error:
            logger.warning("Cannot apply new key material, and the old one stays: listener=%s, reason=%s", name, error)

    # Expiry

    def expiries_ms(self) -> Mapping[str, int]:
        """By listener name, when the first certificate of its chain expires."""
        return {name: tls.expires_at_ms for name, tls in self._tls.items() if tls.expires_at_ms is not None}

    def _warn_of_expiry(self) -> None:
        now_ms = self._clock.wall_ms()
        for name, expires_at_ms in self.expiries_ms().items():
            left_ms = expires_at_ms - now_ms
            if left_ms < EXPIRY_WARNING_DAYS * _DAY_MS and now_ms - self._warned_at_ms.get(name, 0) >= _DAY_MS:
                self._warned_at_ms[name] = now_ms
                what = "has expired" if left_ms < 0 else f"expires in {left_ms // _DAY_MS} days"
                logger.warning("The certificate of listener %s %s: renew it", name, what)


def _texts_of(config: NodeConfig, name: str) -> Mapping[str, str]:
    prefix = f"listener.name.{name.lower()}.ssl."
    return {key: text for key, text in config.effective_values.items() if key.startswith(prefix)}


def _rejection(reason: str) -> KafkaError:
    exception = "org.apache.kafka.common.config.ConfigException"
    return reconfiguration_error(f"Validation of dynamic config update of SSLFactory failed: {exception}: {reason}")

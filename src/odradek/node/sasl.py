"""SASL on the listeners of a node, and its own logins to other nodes."""

import base64
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from odradek.base.ports import Clock, Executor, Pool, Random
from odradek.base.principal import Principal
from odradek.config.node_config import NodeConfig
from odradek.config.sasl_checks import CONTROLLER_MECHANISM, INTER_BROKER_MECHANISM
from odradek.config.sasl_config import MechanismConfig, OAuthConfig, SaslLogin, read_login, read_sasl
from odradek.core.metadata.image import ClusterImage, ScramCredential
from odradek.core.security import delegation_tokens
from odradek.core.security.scram_credentials import (
    SALT_BYTES,
    ScramMechanism,
    credential_of,
    find_mechanism_named,
    salted_password,
)
from odradek.instruments.authentication import AuthenticationCounts
from odradek.node.kerberos import KerberosListener
from odradek.server.periodic import Periodic
from odradek.server.security import AuthenticationFailure, SaslClientExchange, SaslServerExchange
from odradek.wire.sasl.exchange import GSSAPI, OAUTHBEARER, PLAIN, SaslError
from odradek.wire.sasl.oauth import OAuthClient, OAuthServer, VerifiedToken
from odradek.wire.sasl.plain import PlainClient, PlainServer, PlainUsers
from odradek.wire.sasl.scram_client import ScramClient
from odradek.wire.sasl.scram_server import ScramLookup, ScramServer, TokenLogin

if TYPE_CHECKING:
    from odradek.server.jwks import TokenVerifier

logger = logging.getLogger(__name__)

_NONCE_BYTES: Final = 24
_KEY_BYTES: Final = 32

T = TypeVar("T")
ImageSource = Callable[[], ClusterImage | None]


class HandshakeThreads:
    """Exchanges that take milliseconds share threads with TLS handshakes, and wait for no disk."""

    def __init__(self, executor: Executor) -> None:
        self._executor: Final = executor

    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.HANDSHAKE, lane: str | None = None) -> T:
        return await self._executor.run(work, pool=Pool.HANDSHAKE)


class NodeSasl:
    """What the listeners share: credentials of the cluster, randomness, threads."""

    def __init__(self, config: NodeConfig, *, clock: Clock, random: Random, executor: Executor) -> None:
        self._config: Final = config
        self.clock: Final = clock
        self._random: Final = random
        self.threads: Final = HandshakeThreads(executor)
        self._executor: Final = executor
        self._verifiers: Final[list[TokenVerifier]] = []
        self._kerberos: Final[dict[str, KerberosListener]] = {}
        self._image: ImageSource = lambda: None
        secret = config.effective("delegation.token.secret.key")
        self._token_secret: Final = secret if isinstance(secret, str) and secret else None
        self.on_failure: Callable[[AuthenticationFailure], None] = lambda failure: None
        """For an audit log."""
        # With the secret of the cluster, the salts of unknown users are the same on all nodes.
        fake_salt_key = self._token_secret.encode() if self._token_secret else random.randbytes(_KEY_BYTES)
        self.scram: Final = ScramLookup(self._find_user, self._find_token, fake_salt_key)

    def use_image(self, image: ImageSource) -> None:
        """Until then, no SCRAM credential is known."""
        self._image = image

    def load(self, listener_names: Iterable[str]) -> None:
        """Read the keys of Kerberos. Blocks. Raises KerberosUnusable."""
        for name in listener_names:
            settings = read_sasl(self._config.values, name, self._config.login_file).mechanisms.get(GSSAPI)
            if settings is not None and settings.kerberos is not None:
                self._kerberos[name] = KerberosListener(settings.kerberos)

    def kerberos(self, listener_name: str) -> "KerberosListener":
        return self._kerberos[listener_name]

    def listener(self, name: str) -> "ListenerSasl":
        return ListenerSasl(self._config, name, self)

    def inter_broker_login(self) -> SaslLogin:
        return self._login(self._config.inter_broker_listener_name, INTER_BROKER_MECHANISM)

    def controller_login(self) -> SaslLogin:
        return self._login(self._config.controller_listener_names[0], CONTROLLER_MECHANISM)

    def new_client_exchange(self, login: SaslLogin) -> SaslClientExchange:
        if login.mechanism == PLAIN:
            return PlainClient(login.username, login.password)
        if login.mechanism == OAUTHBEARER:
            return OAuthClient(partial(_read_token, login.token_url))
        nonce = self.new_nonce()
        return ScramClient(login.mechanism, login.username, login.password, nonce, has_token=login.has_token)

    def token_verifier(self, config: OAuthConfig) -> Callable[[str], VerifiedToken]:
        """Imports what verifies tokens, which other mechanisms do not need."""
        from odradek.server.jwks import TokenVerifier
        from odradek.wire.sasl.tokens import TokenRules, verify_unsecured_token

        rules = TokenRules(
            config.issuer, config.audiences, config.skew_seconds, config.subject_claim, config.scope_claim
        )
        _warn_of(config)
        if config.jwks_url is None:
            return lambda token: verify_unsecured_token(token, rules, self.clock.wall_ms() / 1000)
        verifier = TokenVerifier(
            config.jwks_url,
            rules,
            refresh_seconds=config.refresh_ms / 1000,
            clock=self.clock,
            executor=self._executor,
        )
        self._verifiers.append(verifier)
        return verifier.verify

    async def start(self, periodic: Periodic) -> None:
        """Reads the keys of tokens. Without them, the node starts, and rejects tokens until they can be read."""
        for verifier in self._verifiers:
            await verifier.refresh()
            periodic.once("keys of OAUTHBEARER", verifier.keep_fresh())

    def new_key(self) -> bytes:
        return self._random.randbytes(_KEY_BYTES)

    def new_nonce(self) -> str:
        return base64.urlsafe_b64encode(self._random.randbytes(_NONCE_BYTES)).decode()

    def _login(self, listener_name: str, mechanism_key: str) -> SaslLogin:
        config, mechanism = self._config, str(self._config.effective(mechanism_key))
        return read_login(config.values, listener_name, mechanism, mechanism_key, config.login_file)

    def _find_user(self, mechanism: ScramMechanism, name: str) -> ScramCredential | None:
        image = self._image()
        return None if image is None else image.scram_credentials.get((name, int(mechanism)))

    def _find_token(self, mechanism: ScramMechanism, token_id: str) -> TokenLogin | None:
        image = self._image()
        token = None if image is None else image.delegation_tokens.get(token_id)
        if token is None or self._token_secret is None:
            return None
        password = delegation_tokens.token_password(self._token_secret, token_id)
        salt = delegation_tokens.token_hmac(self._token_secret, f"salt {token_id}")[:SALT_BYTES]
        iterations = delegation_tokens.SCRAM_ITERATIONS
        salted = salted_password(mechanism, password, salt, iterations)
        credential = credential_of(mechanism, salted, salt=salt, iterations=iterations)
        owner_type, _, owner_name = token.owner.partition(":")
        return TokenLogin(credential, Principal(owner_type, owner_name), token.expiration_timestamp_ms)


class ListenerSasl:
    """The `SaslServer` of one listener."""

    def __init__(self, config: NodeConfig, name: str, node: NodeSasl) -> None:
        """Raises SaslConfigError."""
        settings = read_sasl(config.values, name, config.login_file)
        self._node: Final = node
        self._name: Final = name
        self.receive_bytes_max: Final = settings.receive_bytes_max
        self.failure_delay_seconds: Final = config.effective_number("connection.failed.authentication.delay.ms") / 1000
        self.clock: Final = node.clock
        self.executor: Final = node.threads
        self.counts: Final = AuthenticationCounts()
        self.mechanisms: Final = tuple(settings.mechanisms)
        self._settings: Final = settings.mechanisms
        self._new_exchange: Final[Mapping[str, Callable[[], SaslServerExchange]]] = {
            one.name: self._exchanges(one) for one in settings.mechanisms.values()
        }

    def start(self, mechanism: str) -> SaslServerExchange:
        return self._new_exchange[mechanism]()

    def reauthentication_ms_max(self, mechanism: str) -> int:
        return self._settings[mechanism].reauthentication_ms_max

    def on_failure(self, failure: AuthenticationFailure) -> None:
        self._node.on_failure(failure)

    def _exchanges(self, settings: MechanismConfig) -> Callable[[], SaslServerExchange]:
        node = self._node
        if settings.name == PLAIN:
            return partial(PlainServer, PlainUsers(settings.login.users(), node.new_key()).verify)
        if settings.name == GSSAPI:
            return node.kerberos(self._name).new_exchange
        if settings.oauth is not None:
            return partial(OAuthServer, node.token_verifier(settings.oauth))
        scram = find_mechanism_named(settings.name)
        assert scram is not None
        return lambda: ScramServer(scram, node.scram, node.new_nonce())


def _warn_of(config: OAuthConfig) -> None:
    if config.jwks_url is None:
        logger.warning("OAUTHBEARER accepts tokens without a signature: every client can choose its principal")
        return
    for name, value in (("audience", config.audiences), ("issuer", config.issuer)):
        if not value:
            logger.warning("OAUTHBEARER verifies no %s of tokens: set sasl.oauthbearer.expected.%s", name, name)


def _read_token(url: str) -> str:
    """Called in a thread."""
    from odradek.server.jwks import read_source

    try:
        return read_source(url).decode().strip()
    except (OSError, ValueError) as error:
        raise SaslError(
            f"cannot read this node's token from {url}: {getattr(error, 'strerror', None) or error}"
        ) from None

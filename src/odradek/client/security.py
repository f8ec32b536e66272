"""TLS and SASL settings of a client. Knows nothing about requests."""

import secrets
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odradek.base.principal import ANONYMOUS, USER, Principal
from odradek.wire.sasl.exchange import OAUTHBEARER, PLAIN, SCRAM_DIGESTS
from odradek.wire.sasl.oauth import OAuthClient
from odradek.wire.sasl.plain import PlainClient
from odradek.wire.sasl.scram_client import ScramClient

if TYPE_CHECKING:
    import ssl

MECHANISMS: Final = (PLAIN, *SCRAM_DIGESTS, OAUTHBEARER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Certificates and keys: files with PEM, PKCS12 or JKS, or PEM as text.

    Without authorities, the system's are trusted.
    """

    authorities_file: str | None = None
    authorities_password: str | None = field(default=None, repr=False)
    """Of the file, if it is PKCS12 or JKS."""
    authorities: str | None = None
    own_file: str | None = None
    """Certificate chain and key."""
    own_password: str | None = field(default=None, repr=False)
    """Of the file, if it is PKCS12 or JKS."""
    own: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    checks_host: bool = True

    def context(self) -> "ssl.SSLContext":
        """Build the SSL context. Raises OSError for a missing file and ssl.SSLError for an invalid one."""
        # Imported only if needed, which keeps the start fast without TLS.
        import ssl

        from odradek.client.java_key_stores import as_pem
        from odradek.host.key_stores.store import KeyStoreError

        try:
            return as_pem(self)._context_of_pem()
        except KeyStoreError as error:
            raise ssl.SSLError(str(error)) from None

    def _context_of_pem(self) -> "ssl.SSLContext":
        import ssl

        context = ssl.create_default_context(cafile=self.authorities_file, cadata=self.authorities)
        # As in Java, every trusted certificate is an anchor, not only self-signed ones.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.check_hostname = self.checks_host
        if self.own_file is not None:
            context.load_cert_chain(self.own_file, password=self._password)
        elif self.own is not None:
            # Python loads keys from files only.
            with tempfile.TemporaryDirectory(prefix="odradek-") as directory:
                held = Path(directory) / "own.pem"
                held.touch(mode=0o600)
                held.write_text(self.own)
                context.load_cert_chain(held, password=self._password)
        return context

    @property
    def _password(self) -> str:
        # Never None: Python would prompt for a password on the terminal.
        return self.key_password or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sasl:
    mechanism: str
    username: str = ""
    """Of OAUTHBEARER: the client ID."""
    password: str = field(default="", repr=False)
    """Of OAUTHBEARER: the client secret."""
    has_token: bool = False
    """Whether the user name is the ID of a delegation token, and the password its HMAC in base64."""
    token_url: str = ""
    """Of OAUTHBEARER: the token endpoint of an identity provider, or a file with a token."""
    scope: str = ""
    """Of OAUTHBEARER."""

    def exchange(self) -> PlainClient | ScramClient | OAuthClient:
        if self.mechanism == PLAIN:
            return PlainClient(self.username, self.password)
        if self.mechanism == OAUTHBEARER:
            from odradek.client.oauth_tokens import find_token

            return OAuthClient(partial(find_token, self.token_url, self.username, self.password, self.scope))
        nonce = secrets.token_urlsafe(24)
        return ScramClient(self.mechanism, self.username, self.password, nonce, has_token=self.has_token)


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    tls: Tls | None = None
    sasl: Sasl | None = None

    @property
    def principal(self) -> Principal | None:
        """The principal for the brokers. None if they derive it from a certificate or from a delegation token."""
        if self.sasl is not None:
            return None if self.sasl.has_token else Principal(USER, self.sasl.username)
        has_certificate = self.tls is not None and (self.tls.own or self.tls.own_file)
        return None if has_certificate else ANONYMOUS


NOTHING: Final = Security()

"""TLS and SASL settings of a client. Knows nothing about requests."""

import secrets
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odradek.base.principal import ANONYMOUS, USER, Principal
from odradek.wire.sasl.exchange import PLAIN, SCRAM_DIGESTS
from odradek.wire.sasl.plain import PlainClient
from odradek.wire.sasl.scram_client import ScramClient

if TYPE_CHECKING:
    import ssl

MECHANISMS: Final = (PLAIN, *SCRAM_DIGESTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Certificates and keys as PEM, in files or as text. Without authorities, the system's are trusted."""

    authorities_file: str | None = None
    authorities: str | None = None
    own_file: str | None = None
    """Certificate chain and key."""
    own: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    checks_host: bool = True

    def context(self) -> "ssl.SSLContext":
        """Build the SSL context. Raises OSError for a missing file and ssl.SSLError for invalid PEM."""
        import ssl

        context = ssl.create_default_context(cafile=self.authorities_file, cadata=self.authorities)
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
    username: str
    password: str = field(repr=False)
    has_token: bool = False
    """Whether the user name is the ID of a delegation token, and the password its HMAC in base64."""

    def exchange(self) -> PlainClient | ScramClient:
        if self.mechanism == PLAIN:
            return PlainClient(self.username, self.password)
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

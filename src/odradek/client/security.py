"""TLS and SASL settings of a client. Knows nothing about requests."""

import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odradek.client import scram

if TYPE_CHECKING:
    import ssl

PLAIN: Final = "PLAIN"
MECHANISMS: Final = (PLAIN, *scram.MECHANISMS)


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

    def exchange(self) -> "SaslExchange":
        return SaslExchange(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    tls: Tls | None = None
    sasl: Sasl | None = None


NOTHING: Final = Security()


class SaslExchange:
    """A SASL exchange: each challenge of the broker yields the next message."""

    def __init__(self, sasl: Sasl) -> None:
        self._challenge = b""
        self._steps: Final = _plain(sasl) if sasl.mechanism == PLAIN else self._scram(sasl)

    def next(self, challenge: bytes = b"") -> bytes | None:
        """Return the next message, or None at the end. Raises ScramError."""
        self._challenge = challenge
        return next(self._steps, None)

    def _scram(self, sasl: Sasl) -> Iterator[bytes]:
        client = scram.ScramClient(sasl.mechanism, sasl.username, sasl.password, secrets.token_urlsafe(24))
        yield client.first()
        yield client.final(self._challenge)
        client.check(self._challenge)


def _plain(sasl: Sasl) -> Iterator[bytes]:
    yield f"\0{sasl.username}\0{sasl.password}".encode()

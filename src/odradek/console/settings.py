"""The settings of the console, and the checks that reject unsafe ones."""

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from odradek.client.address import Address
from odradek.client.security import NOTHING, Security
from odradek.pipelines.job_command import JobCommand
from odradek.text.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """An OpenID Connect provider and its allowed users."""

    issuer: str
    client_id: str
    client_secret: str
    public_url: str
    """Public URL of the console, without a trailing slash."""
    allowed: tuple[str, ...]
    """Verified email addresses, @domains or subjects; * allows every user of the provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    bootstrap: tuple[Address, ...]
    security: Security = NOTHING
    """Security of the connections to the cluster."""
    host: str
    port: int
    audit_log: Path
    is_read_only: bool = False
    password: str | None = None
    oidc: OidcSettings | None = None
    certificate: Path | None = None
    private_key: Path | None = None
    schema_registry: str | None = None
    pipelines: tuple[Path, ...] = ()
    jobs: tuple[JobCommand, ...] = ()
    is_attached: bool = False
    """A parent process reads the console's standard output; the console stops when its standard input closes."""

    @property
    def is_encrypted(self) -> bool:
        return self.certificate is not None


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def check_exposure(settings: Settings) -> None:
    """Raises UserError if other computers could use the console without authentication and TLS."""
    if (settings.certificate is None) != (settings.private_key is None):
        raise UserError("--tls-certificate and --tls-key must be given together")
    if settings.password is not None and settings.oidc is not None:
        raise UserError("--password-file and --oidc-issuer cannot be combined: give one of them")
    if settings.oidc is not None:
        _check_oidc(settings.oidc)
    if is_loopback(settings.host):
        return
    missing = [
        option
        for option, value in (
            ("--password-file or --oidc-issuer", settings.password or settings.oidc),
            ("--tls-certificate and --tls-key", settings.certificate),
        )
        if value is None
    ]
    if missing:
        raise UserError(
            f"--host {settings.host} is reachable from other computers: add {' and '.join(missing)},"
            " or omit --host to listen on this computer only"
        )


def _check_oidc(oidc: OidcSettings) -> None:
    for option, url in (("--oidc-issuer", oidc.issuer), ("--public-url", oidc.public_url)):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UserError(f"{option} {url!r} is not a URL: write https://HOST")
        if parts.scheme == "http" and not is_loopback(parts.hostname):
            raise UserError(f"{option} {url!r} would send secrets unencrypted: use https://")
    if not oidc.allowed:
        raise UserError(
            "--oidc-issuer requires --oidc-allow: an email address (ann@example.org), a domain (@example.org),"
            " or * for every user of the provider"
        )


def read_password(file: Path, option: str = "--password-file") -> str:
    """Returns the first line of the file."""
    lines = file.read_text().splitlines()
    if not lines or len(lines[0]) < 8:
        raise UserError(f"{option} {str(file)!r}: the first line must be a password of at least 8 characters")
    return lines[0]

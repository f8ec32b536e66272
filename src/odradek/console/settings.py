"""What the console is told when it starts, and what it refuses to start with."""

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from odradek.cli.errors import UserError
from odradek.client.address import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    bootstrap: tuple[Address, ...]
    host: str
    port: int
    audit_log: Path
    is_read_only: bool = False
    password: str | None = None
    certificate: Path | None = None
    private_key: Path | None = None
    is_attached: bool = False
    """Somebody started it who hears from it on standard output, and whose end is the end of standard input."""

    @property
    def is_encrypted(self) -> bool:
        return self.certificate is not None


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def check_exposure(settings: Settings) -> None:
    """Raises UserError where others could reach the console and do with the cluster what they like."""
    if (settings.certificate is None) != (settings.private_key is None):
        raise UserError("--tls-certificate and --tls-key belong together: give both")
    if is_loopback(settings.host):
        return
    missing = [
        option
        for option, value in (
            ("--password-file", settings.password),
            ("--tls-certificate and --tls-key", settings.certificate),
        )
        if value is None
    ]
    if missing:
        raise UserError(
            f"--host {settings.host} can be reached from other machines: give {' and '.join(missing)} too,"
            " or leave --host out to serve this machine only"
        )


def read_password(file: Path) -> str:
    """The first line of the file."""
    lines = file.read_text().splitlines()
    if not lines or len(lines[0]) < 8:
        raise UserError(f"--password-file {str(file)!r}: its first line has to be a password of at least 8 characters")
    return lines[0]

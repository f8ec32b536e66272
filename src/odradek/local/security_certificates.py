"""The certificates of a cluster of `odradek up --secure`: created at the first start, renewed before they expire."""

import secrets
import socket
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509

from odradek.local.certificate_files import read_authority, read_certificates
from odradek.local.certificates import CertificateError, Issued, Usage, create_ca, issue, parse_host, parse_name, renew
from odradek.local.private_files import write_private
from odradek.text.errors import UserError

_RENEWAL: Final = timedelta(days=30)
_HOSTS: Final = ("localhost", "127.0.0.1", "::1")


def prepare_certificates(authority: Path, authority_key: Path, key_stores: Mapping[Path, str]) -> None:
    """Create the authority and the key stores that are missing, each with its subject, and renew old certificates."""
    now = datetime.now(UTC)
    if not authority.exists():
        if any(file.exists() for file in key_stores):
            raise UserError(f"{str(authority)!r} is missing. Restore it, or use --fresh to delete the cluster.")
        created = create_ca(parse_name(f"Odradek CA {secrets.token_hex(4)}"), now)
        # The certificate last: it marks the authority as complete.
        write_private(authority_key, created.key_pem(), replace=True)
        write_private(authority, created.certificate_pem())
    ca: Issued | None = None
    for file, subject in key_stores.items():
        old = read_certificates(file).certificates[0] if file.exists() else None
        if old is not None and old.not_valid_after_utc - now > _RENEWAL:
            continue
        try:
            ca = ca or read_authority(authority, authority_key)
            issued = _issue(ca, subject, now) if old is None else renew(ca, old, now)
        except CertificateError as error:
            raise UserError(str(error)) from None
        write_private(file, issued.key_store(), replace=True)


def _issue(ca: Issued, subject: str, now: datetime) -> Issued:
    return issue(ca, parse_name(subject), list(_hosts()), Usage.BOTH, now)


def _hosts() -> Iterator[x509.GeneralName]:
    """The names of this machine."""
    yield from map(parse_host, _HOSTS)
    try:
        yield parse_host(socket.gethostname())
    except CertificateError:
        # A host name that DNS does not allow.
        return

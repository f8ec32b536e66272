"""`odradek cert`: create a certificate authority, issue and renew certificates, show and check them."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256

from odradek.cli.options import Format
from odradek.core.security.distinguished_names import format_name
from odradek.local.certificate_checks import check_certificate, common_name, format_host
from odradek.local.certificate_files import CertificateFile, read_authority, read_certificates
from odradek.local.certificates import (
    CA_DAYS,
    LEAF_DAYS,
    CertificateError,
    Issued,
    KeyType,
    Usage,
    create_ca,
    is_authority,
    issue,
    names_of,
    parse_host,
    parse_name,
    purposes_of,
    renew,
)
from odradek.local.private_files import write_private
from odradek.text.errors import UserError
from odradek.text.output import OutputFormat, print_json, print_table
from odradek.text.terminal import say

app = typer.Typer(
    help="Create a certificate authority; issue, renew, show and check certificates.", no_args_is_help=True
)

T = TypeVar("T")

CA_FILE = "ca.pem"
CA_KEY_FILE = "ca.key"

Ca = Annotated[
    Path, typer.Option("--ca", metavar="FILE", help="Certificate of the authority, as `odradek cert ca` writes it.")
]
CaKey = Annotated[
    Path | None,
    typer.Option("--ca-key", metavar="FILE", help="Private key of the authority. Default: ca.key next to --ca."),
]
Directory = Annotated[Path, typer.Option("--directory", "-d", metavar="DIR", help="Directory of the new files.")]
Days = Annotated[int, typer.Option("--days", min=1, max=36500, help="Days until it expires.")]
KeyTypeOption = Annotated[
    KeyType, typer.Option("--key-type", help="EC (P-256) or RSA (2048 bits) for clients that do not support EC.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files.")]
PasswordFile = Annotated[
    Path | None, typer.Option("--password-file", metavar="FILE", help="File containing the password of FILE.")
]
File = Annotated[
    Path, typer.Argument(metavar="FILE", show_default=False, help="Certificate, or key store (PEM, PKCS #12 or JKS).")
]


@app.command()
def ca(
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Common name, or distinguished name, of the authority.")
    ] = "Odradek CA",
    directory: Directory = Path(),
    days: Days = CA_DAYS,
    key_type: KeyTypeOption = KeyType.EC,
    force: Force = False,
) -> None:
    """Create a certificate authority: ca.pem, for trust stores, and ca.key, its private key."""
    created = create_ca(_checked(parse_name, name), _now(), days=days, kind=key_type)
    certificate, key = directory / CA_FILE, directory / CA_KEY_FILE
    if not force and (existing := next((one for one in (certificate, key) if one.exists()), None)):
        raise UserError(f"{str(existing)!r} already exists. Use --force to replace it, or choose another --directory.")
    write_private(key, created.key_pem(), replace=force)
    write_private(certificate, created.certificate_pem(), replace=force)
    say(f"Created {certificate} and {key}. Keep {key.name} secret: it can issue certificates for every name.")


@app.command("issue")
def issue_certificate(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", show_default=False, help="Common name, or distinguished name: CN=ann,O=Example."
        ),
    ],
    ca: Ca = Path(CA_FILE),
    ca_key: CaKey = None,
    host: Annotated[
        list[str] | None,
        typer.Option("--host", "-H", metavar="HOST", help="Host name or IP address of a broker. Repeatable."),
    ] = None,
    usage: Annotated[
        Usage | None, typer.Option("--usage", help="Default: both with --host, as for brokers; else client.")
    ] = None,
    directory: Directory = Path(),
    days: Days = LEAF_DAYS,
    key_type: KeyTypeOption = KeyType.EC,
    force: Force = False,
) -> None:
    """Issue a certificate. The file has its private key and the certificate, as ssl.keystore.type=PEM requires."""
    subject = _checked(parse_name, name)
    hosts = [_checked(parse_host, one) for one in host or ()]
    authority, chain = _authority(ca, ca_key)
    chosen = usage or (Usage.BOTH if hosts else Usage.CLIENT)
    try:
        issued = issue(authority, subject, hosts, chosen, _now(), days=days, kind=key_type)
    except CertificateError as error:
        raise UserError(str(error)) from None
    file = directory / f"{_file_name(common_name(subject) or name)}.pem"
    write_private(file, issued.key_store(chain), replace=force)
    say(f"Created {file} for {issued.certificate.subject.rfc4514_string()}, {_until(issued)}.")


@app.command("renew")
def renew_certificate(
    file: File,
    ca: Ca = Path(CA_FILE),
    ca_key: CaKey = None,
    days: Days = LEAF_DAYS,
) -> None:
    """Replace a certificate and its key by new ones with the same subject, names and usage."""
    old = read_certificates(file)
    if old.key is None or not old.certificates:
        raise UserError(f"{str(file)!r} is not a certificate with its private key, as `odradek cert issue` writes it.")
    if not file.read_bytes().startswith(b"-----"):
        raise UserError(f"{str(file)!r} is not a PEM file. Issue a new certificate with `odradek cert issue`.")
    authority, chain = _authority(ca, ca_key)
    try:
        issued = renew(authority, old.certificates[0], _now(), days=days)
    except CertificateError as error:
        raise UserError(str(error)) from None
    write_private(file, issued.key_store(chain), replace=True)
    say(f"Renewed {file} for {issued.certificate.subject.rfc4514_string()}, {_until(issued)}.")


@app.command()
def show(file: File, password_file: PasswordFile = None, format: Format = OutputFormat.TABLE) -> None:
    """Show the certificates of a file. The subject is in the form in which Kafka names the principal."""
    found = _with_certificates(file, read_certificates(file, _password(password_file)))
    described = [_describe(one, _now()) for one in found.certificates]
    if format is OutputFormat.JSON:
        print_json([{**one, "has_private_key": found.key is not None and not at} for at, one in enumerate(described)])
        return
    for at, one in enumerate(described):
        remark = " (with its private key)" if found.key is not None and not at else ""
        rows = [(name.replace("_", " "), value) for name, value in one.items() if value not in (None, [])]
        print_table((f"{file}{remark}", ""), rows)


@app.command()
def check(
    file: File,
    ca: Ca = Path(CA_FILE),
    host: Annotated[
        str | None, typer.Option("--host", "-H", metavar="HOST", help="Host that clients connect to.")
    ] = None,
    usage: Annotated[
        Usage | None, typer.Option("--usage", help="Default: server with --host; else what the certificate permits.")
    ] = None,
    password_file: PasswordFile = None,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Check a certificate against an authority and a host, and show what clients would report."""
    found = _with_certificates(file, read_certificates(file, _password(password_file)))
    authorities = _with_certificates(ca, read_certificates(ca)).certificates
    chosen = usage or (Usage.SERVER if host else _permitted(found))
    findings = check_certificate(found.certificates, authorities, host, chosen, _now())
    if format is OutputFormat.JSON:
        print_json({"accepted": not findings, "findings": [one._asdict() for one in findings]})
    elif findings:
        print_table(
            ("problem", "Java clients report", "OpenSSL clients report"),
            [(one.problem, one.java, one.openssl) for one in findings],
        )
    else:
        at = f" at {host}" if host else ""
        say(f"Accepted: {found.certificates[0].subject.rfc4514_string()} as {chosen}{at}, {_until(found)}.")
    if findings:
        raise typer.Exit(1)


def _permitted(found: CertificateFile) -> Usage:
    """What the certificate permits; both if that is unlimited."""
    names = {getattr(one, "_name", "") for one in purposes_of(found.certificates[0])}
    if names == {"serverAuth"}:
        return Usage.SERVER
    return Usage.CLIENT if names == {"clientAuth"} else Usage.BOTH


def _with_certificates(file: Path, found: CertificateFile) -> CertificateFile:
    if not found.certificates:
        raise UserError(f"{str(file)!r} contains a private key but no certificate.")
    return found


def _authority(certificate: Path, key: Path | None) -> tuple[Issued, list[x509.Certificate]]:
    """The authority, and the certificates that a key store needs in addition: those below the root."""
    default = certificate.with_name(CA_KEY_FILE)
    authority = read_authority(certificate, key or (default if default.exists() else None))
    is_root = authority.certificate.subject == authority.certificate.issuer
    return authority, [] if is_root else [authority.certificate]


def _describe(certificate: x509.Certificate, now: datetime) -> dict[str, Any]:
    public = certificate.public_key()
    # As Java prints it, which differs from RFC 4514 in details.
    subject = format_name(memoryview(certificate.subject.public_bytes()))
    days = (certificate.not_valid_after_utc - now).days
    return {
        "subject": subject,
        "principal": f"User:{subject}",
        "issuer": format_name(memoryview(certificate.issuer.public_bytes())),
        "names": [format_host(one) for one in names_of(certificate)],
        "authority": is_authority(certificate),
        "usage": [getattr(one, "_name", one.dotted_string) for one in purposes_of(certificate)],
        "key": f"{type(public).__name__.removesuffix('PublicKey').removeprefix('_')} {getattr(public, 'key_size', '')}",
        "valid_from": certificate.not_valid_before_utc.isoformat(),
        "valid_until": certificate.not_valid_after_utc.isoformat(),
        "days_left": days,
        "serial_number": f"{certificate.serial_number:x}",
        "sha256": certificate.fingerprint(SHA256()).hex(),
    }


def _until(found: Issued | CertificateFile) -> str:
    certificate = found.certificate if isinstance(found, Issued) else found.certificates[0]
    return f"valid until {certificate.not_valid_after_utc:%Y-%m-%d}"


def _password(file: Path | None) -> bytes | None:
    return None if file is None else file.read_bytes().rstrip(b"\r\n")


def _file_name(name: str) -> str:
    """The name without characters that are special in paths and shells."""
    cleaned = re.sub(r"[^\w.-]+", "-", name).strip("-.")
    if not cleaned:
        raise UserError(f"No file can be named after {name!r}. Give it a common name: CN=….")
    return cleaned


def _checked(parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except CertificateError as error:
        raise UserError(str(error)) from None


def _now() -> datetime:
    return datetime.now(UTC)

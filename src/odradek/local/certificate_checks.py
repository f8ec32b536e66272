"""Finds out what a client would report about a broker's certificate, and a broker about a client's. No I/O."""

import ipaddress
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from odradek.local.certificates import Usage, is_authority, is_issued_by, names_of, purposes_of

_CHAIN_MAX: Final = 10


class Finding(NamedTuple):
    problem: str
    """A complete sentence that says what to do."""
    java: str
    """What a Java client reports."""
    openssl: str
    """What clients with OpenSSL report: librdkafka, Python, kcat."""


def check_certificate(
    chain: Sequence[x509.Certificate],
    authorities: Sequence[x509.Certificate],
    host: str | None,
    usage: Usage,
    now: datetime,
) -> list[Finding]:
    """Check the certificate, which is the first of the chain. An empty list: it is accepted."""
    path, is_trusted = _path(chain, authorities)
    findings: list[Finding] = []
    if not is_trusted:
        findings.append(_unknown_authority(path[-1], authorities))
    findings.extend(finding for one in path for finding in _check_validity(one, now))
    findings.extend(_check_purpose(chain[0], usage))
    if host is not None:
        findings.extend(_check_host(chain[0], host))
    return findings


def _path(
    chain: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]
) -> tuple[list[x509.Certificate], bool]:
    """The certificates from the first one up to an authority, and whether an authority was found."""
    path = [chain[0]]
    if chain[0] in authorities:
        return path, True
    while len(path) <= _CHAIN_MAX:
        for authority in authorities:
            if is_issued_by(path[-1], authority):
                return [*path, authority], True
        issuers = (one for one in chain if one not in path and is_authority(one) and is_issued_by(path[-1], one))
        issuer = next(issuers, None)
        if issuer is None:
            break
        path.append(issuer)
    return path, False


def _unknown_authority(last: x509.Certificate, authorities: Sequence[x509.Certificate]) -> Finding:
    issuer = last.issuer.rfc4514_string()
    openssl = "self-signed certificate" if last.issuer == last.subject else "unable to get local issuer certificate"
    if any(one.subject == last.issuer for one in authorities):
        return Finding(
            f"The trust store has an authority named {issuer!r}, but with another key than the one that issued the "
            "certificate. Add the other authority, or issue the certificate again.",
            "PKIX path validation failed: Path does not chain with any of the trust anchors",
            openssl,
        )
    return Finding(
        f"No authority in the trust store has issued the certificate: its issuer is {issuer!r}. "
        "Add that authority to the trust store, and intermediate authorities to the key store.",
        "PKIX path building failed: unable to find valid certification path to requested target",
        openssl,
    )


def _check_validity(certificate: x509.Certificate, now: datetime) -> Iterator[Finding]:
    name = certificate.subject.rfc4514_string()
    if now > certificate.not_valid_after_utc:
        yield Finding(
            f"{name!r} expired on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC. Renew it.",
            "PKIX path validation failed: validity check failed",
            "certificate has expired",
        )
    elif now < certificate.not_valid_before_utc:
        yield Finding(
            f"{name!r} is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC. Check the clock.",
            "PKIX path validation failed: validity check failed",
            "certificate is not yet valid",
        )


def _check_purpose(certificate: x509.Certificate, usage: Usage) -> Iterator[Finding]:
    purposes = purposes_of(certificate)
    if not purposes or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in purposes:
        return
    for role, purpose in (
        (Usage.SERVER, ExtendedKeyUsageOID.SERVER_AUTH),
        (Usage.CLIENT, ExtendedKeyUsageOID.CLIENT_AUTH),
    ):
        if usage in (role, Usage.BOTH) and purpose not in purposes:
            yield Finding(
                f"The extended key usage excludes TLS {role} authentication. Issue it with --usage {usage}.",
                f"Extended key usage does not permit use for TLS {role} authentication",
                "unsuitable certificate purpose",
            )


def _check_host(certificate: x509.Certificate, host: str) -> Iterator[Finding]:
    names = names_of(certificate)
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        if not _matches_dns(certificate, host):
            yield Finding(
                f"The certificate is not valid for the host {host!r}, but for {_format(names)}. "
                f"Issue it with --host {host}.",
                _java_report(certificate, host),
                f"Hostname mismatch, certificate is not valid for '{host}'",
            )
        return
    if address not in [name.value for name in names if isinstance(name, x509.IPAddress)]:
        yield Finding(
            f"The certificate is not valid for the address {host!r}, but for {_format(names)}. "
            f"Issue it with --host {host}, or connect to a name of the certificate.",
            f"No subject alternative names matching IP address {host} found"
            if names
            else "No subject alternative names present",
            f"IP address mismatch, certificate is not valid for '{host}'",
        )


def _java_report(certificate: x509.Certificate, host: str) -> str:
    if any(isinstance(name, x509.DNSName) for name in names_of(certificate)):
        return f"No subject alternative DNS name matching {host} found."
    if common_name(certificate.subject).lower() == host.lower():
        return "Accepted: Java compares the common name if there are no DNS names"
    return f"No name matching {host} found"


def _matches_dns(certificate: x509.Certificate, host: str) -> bool:
    """A wildcard stands for the first label."""
    first, _, rest = host.lower().rstrip(".").partition(".")
    names = [name.value.lower() for name in names_of(certificate) if isinstance(name, x509.DNSName)]
    return any(
        name == f"{first}.{rest}".rstrip(".") or (name.startswith("*.") and bool(rest) and name[2:] == rest)
        for name in names
    )


def _format(names: Sequence[x509.GeneralName]) -> str:
    return ", ".join(map(format_host, names)) or "no names"


def format_host(name: x509.GeneralName) -> str:
    """A subject alternative name as text."""
    value = name.value
    return value.rfc4514_string() if isinstance(value, x509.Name) else str(value)


def common_name(name: x509.Name) -> str:
    found = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""

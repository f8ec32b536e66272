"""Cipher suites: Kafka's configs have their IANA names, OpenSSL has its own."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

TLS13: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})

_SUITE: Final = re.compile(
    r"TLS_(?P<exchange>RSA|(?:EC)?DHE_(?:RSA|ECDSA|DSS))_WITH_(?P<cipher>AES_(?:128|256)|CHACHA20_POLY1305)"
    r"(?:_(?P<mode>GCM|CBC|CCM|CCM_8))?(?:_(?P<hash>SHA|SHA256|SHA384))?"
)


class CipherSuites(NamedTuple):
    tls12: tuple[str, ...]
    """OpenSSL's names."""
    tls13: tuple[str, ...]
    unknown: tuple[str, ...]
    """IANA's names of suites that OpenSSL does not have, or not any more."""


def parse_cipher_suites(names: Sequence[str]) -> CipherSuites:
    tls12: list[str] = []
    unknown: list[str] = []
    for name in names:
        if name not in TLS13 and name != "TLS_EMPTY_RENEGOTIATION_INFO_SCSV":
            found = openssl_name(name)
            (unknown if found is None else tls12).append(found or name)
    return CipherSuites(tuple(tls12), tuple(name for name in names if name in TLS13), tuple(unknown))


def openssl_name(iana: str) -> str | None:
    """Of a suite of TLS 1.2 that encrypts with AES or ChaCha20; None for others."""
    match = _SUITE.fullmatch(iana)
    if match is None:
        return None
    exchange, cipher, mode = match["exchange"].replace("_", "-"), match["cipher"], match["mode"]
    if cipher == "CHACHA20_POLY1305":
        suite = None if mode else "CHACHA20-POLY1305"
    elif mode in ("CCM", "CCM_8"):
        suite = None if match["hash"] else f"{cipher.replace('_', '', 1)}-{mode.replace('_', '')}"
    elif mode is None or match["hash"] is None:
        suite = None
    else:
        parts = (cipher.replace("_", "", 1), *(("GCM",) if mode == "GCM" else ()), match["hash"])
        suite = "-".join(parts)
    if suite is None:
        return None
    return suite if exchange == "RSA" else f"{exchange}-{suite}"

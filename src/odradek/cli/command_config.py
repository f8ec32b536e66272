"""The file of `--command-config`: a client's properties, as Kafka's own tools take them.

Of its names those of TLS and SASL count; the others are a client's own affair, and passed over. No message holds a
value that may be secret.
"""

import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from odradek.client.security import Security, Tls
from odradek.client.security_configs import PROTOCOL, WrongConfig, security_of
from odradek.config.properties import parse_properties
from odradek.text.errors import UserError, nearest

OPTION: Final = "--command-config"

_TAKEN: Final = (
    PROTOCOL,
    "sasl.mechanism",
    "sasl.jaas.config",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.certificates",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
)
# They change nothing here: TLS is the newest that both sides know, 1.2 at least; the rest is Java's, or Kerberos'.
_PASSED_OVER: Final = (
    "ssl.protocol",
    "ssl.enabled.protocols",
    "ssl.provider",
    "ssl.truststore.password",
    "ssl.keystore.password",
    "ssl.trustmanager.algorithm",
    "ssl.keymanager.algorithm",
    "ssl.secure.random.implementation",
    "sasl.login.",
    "sasl.kerberos.",
)
_REFUSED: Final = {
    "sasl.username": "write sasl.jaas.config instead, with username and password in it",
    "sasl.password": "write sasl.jaas.config instead, with username and password in it",
    "ssl.ca.location": "write ssl.truststore.location instead, and ssl.truststore.type=PEM",
    "ssl.cipher.suites": "leave it out: those of this machine's OpenSSL are used",
    "config.providers": "write the values themselves: nobody is asked for them here",
}
_OURS: Final = ("security.", "sasl.", "ssl.", "config.providers")


def security_of_file(file: Path) -> Security:
    """How to speak to the cluster. Raises UserError with one line: what is wrong, where, and what to write."""
    return _CommandConfig(file).security()


class _CommandConfig:
    def __init__(self, file: Path) -> None:
        self._file: Final = file
        try:
            properties, malformed = parse_properties(file.read_text())
        except UnicodeDecodeError:
            raise UserError(f"{OPTION} {str(file)!r} is no text: name a file of properties, as key=value") from None
        for one in malformed:
            # What cannot be read may be a password: it is not repeated.
            raise self._wrong(one.line, r"a backslash stands before something that it cannot: write \\ for one")
        self._lines: Final = {one.key: one.line for one in properties}
        self._configs: Final = {one.key: one.value for one in properties}

    def security(self) -> Security:
        for name, line in self._lines.items():
            if name.startswith(_OURS) and name not in _TAKEN and not name.startswith(_PASSED_OVER):
                raise self._wrong(line, f"{name}: {_instead(name)}")
        unused = next((name for name in _TAKEN if name in self._configs), None)
        if unused is not None and PROTOCOL not in self._configs:
            raise self._wrong(self._lines[unused], f"{unused} is of no use without {PROTOCOL}: write SSL or SASL_SSL")
        try:
            found = security_of(self._configs)
            if found.tls is not None:
                _check_files(found.tls, self._configs)
        except WrongConfig as error:
            line = self._lines.get(error.name, self._lines[PROTOCOL])
            raise self._wrong(line, str(error)) from None
        return found

    def _wrong(self, line: int, what: str) -> UserError:
        return UserError(f"{OPTION} {self._file}:{line}: {what}")


def _instead(name: str) -> str:
    known = _REFUSED.get(name)
    if known is not None:
        return known
    meant = nearest(name, _TAKEN)
    return f"not known here; did you mean {meant}?" if meant else "not supported here: leave it out"


def _check_files(tls: Tls, configs: Mapping[str, str]) -> None:
    """Now, and in words of the file: a connection would only say that it has failed."""
    for store in ("truststore", "keystore"):
        location = configs.get(f"ssl.{store}.location")
        if location is not None and not Path(location).is_file():
            raise WrongConfig(f"ssl.{store}.location", f"there is no file {location!r}")
    authorities = Tls(authorities_file=tls.authorities_file, authorities=tls.authorities)
    own = Tls(own_file=tls.own_file, own=tls.own, key_password=tls.key_password)
    _check(authorities.context, configs, ("ssl.truststore.location", "ssl.truststore.certificates"), "certificates")
    _check(
        own.context,
        configs,
        ("ssl.keystore.location", "ssl.keystore.certificate.chain"),
        "a certificate and its key, or ssl.key.password is not the key's",
    )


def _check(context: Callable[[], object], configs: Mapping[str, str], names: tuple[str, str], what: str) -> None:
    given = next((name for name in names if name in configs), None)
    if given is None:
        return
    try:
        context()
    except (ssl.SSLError, ValueError):
        raise WrongConfig(given, f"it holds no PEM of {what}") from None
    except OSError as error:
        raise WrongConfig(given, f"it cannot be read ({error.strerror})") from None

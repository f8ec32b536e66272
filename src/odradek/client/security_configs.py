"""Converts Kafka's client configs for TLS and SASL. Pure.

Only PEM is supported, in a file or in the config, not Java's key stores. Error messages never contain a value that may
be secret.
"""

import re
from collections.abc import Mapping
from typing import Final

from odradek.client.security import MECHANISMS, Sasl, Security, Tls
from odradek.wire.sasl.exchange import PLAIN

PROTOCOL: Final = "security.protocol"

_PROTOCOLS: Final = {
    "PLAINTEXT": (False, False),
    "SSL": (True, False),
    "SASL_PLAINTEXT": (False, True),
    "SASL_SSL": (True, True),
}
_JAAS_MODULES: Final = ("PlainLoginModule", "ScramLoginModule")
_PACKAGE: Final = "org.apache.kafka.common.security"
_PEM: Final = re.compile(r"(-----BEGIN ([A-Z0-9 ]+)-----)(.*?)(-----END \2-----)", re.DOTALL)
_PEM_LINE: Final = 64
_KEY: Final = "PRIVATE KEY"


class WrongConfig(ValueError):
    """The message starts with the name of the config and says what to write."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"{name}: {what}")
        self.name = name


def security_of(configs: Mapping[str, str]) -> Security:
    """Parse the configs. Raises WrongConfig. Files are not read."""
    protocol = configs.get(PROTOCOL, "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise WrongConfig(PROTOCOL, f"unknown protocol {protocol!r}. Choose from {', '.join(_PROTOCOLS)}.")
    has_tls, has_sasl = _PROTOCOLS[protocol]
    return Security(tls=_tls(configs) if has_tls else None, sasl=_sasl(configs) if has_sasl else None)


def _tls(configs: Mapping[str, str]) -> Tls:
    for store in ("truststore", "keystore"):
        kind = configs.get(f"ssl.{store}.type", "PEM" if f"ssl.{store}.location" not in configs else "JKS")
        if kind.upper() != "PEM":
            raise WrongConfig(f"ssl.{store}.type", f"{kind} is not supported. Use a PEM file and set the type to PEM.")
    chain, key = configs.get("ssl.keystore.certificate.chain"), configs.get("ssl.keystore.key")
    if (chain is None) != (key is None):
        given = "ssl.keystore.key" if chain is None else "ssl.keystore.certificate.chain"
        raise WrongConfig(given, "set both ssl.keystore.certificate.chain and ssl.keystore.key.")
    authorities = configs.get("ssl.truststore.certificates")
    return Tls(
        authorities_file=configs.get("ssl.truststore.location"),
        authorities=None if authorities is None else _in_lines(authorities),
        own_file=configs.get("ssl.keystore.location"),
        own=None if chain is None or key is None else f"{_in_lines(key)}\n{_in_lines(chain)}\n",
        key_password=configs.get("ssl.key.password"),
        checks_host=configs.get("ssl.endpoint.identification.algorithm", "https") != "",
    )


def _sasl(configs: Mapping[str, str]) -> Sasl:
    mechanism = configs.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism not in MECHANISMS:
        raise WrongConfig("sasl.mechanism", f"{mechanism} is not supported. Choose from {', '.join(MECHANISMS)}.")
    jaas = configs.get("sasl.jaas.config", "")
    found = {name: _unquote(value) for name, value in re.findall(r'(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|[^\s;]+)', jaas)}
    if "username" not in found or "password" not in found or not any(name in jaas for name in _JAAS_MODULES):
        module = _JAAS_MODULES[mechanism != MECHANISMS[0]]
        raise WrongConfig(
            "sasl.jaas.config", f'invalid syntax. Expected: …{module} required username="…" password="…";'
        )
    has_token = mechanism != PLAIN and found.get("tokenauth", "").lower() == "true"
    return Sasl(mechanism=mechanism, username=found["username"], password=found["password"], has_token=has_token)


def configs_of(security: Security) -> dict[str, str]:
    """Convert back to configs, for `security_of`. All of them may be secret."""
    protocol = next(
        name for name, parts in _PROTOCOLS.items() if parts == (security.tls is not None, security.sasl is not None)
    )
    configs = {PROTOCOL: protocol}
    if security.tls is not None:
        configs |= _tls_configs(security.tls)
    if security.sasl is not None:
        configs |= _sasl_configs(security.sasl)
    return configs


def _tls_configs(tls: Tls) -> dict[str, str]:
    own = tls.own or ""
    found = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": tls.authorities_file,
        "ssl.truststore.certificates": tls.authorities,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": tls.own_file,
        "ssl.keystore.key": keys_in(own) or None,
        "ssl.keystore.certificate.chain": certificates_in(own) or None,
        "ssl.key.password": tls.key_password,
        "ssl.endpoint.identification.algorithm": None if tls.checks_host else "",
    }
    return {name: value for name, value in found.items() if value is not None}


def _sasl_configs(sasl: Sasl) -> dict[str, str]:
    module = f"{_PACKAGE}.plain.PlainLoginModule" if sasl.mechanism == PLAIN else f"{_PACKAGE}.scram.ScramLoginModule"
    token = ' tokenauth="true"' if sasl.has_token else ""
    login = f"{module} required username={_quote(sasl.username)} password={_quote(sasl.password)}{token};"
    return {"sasl.mechanism": sasl.mechanism, "sasl.jaas.config": login}


def keys_in(pem: str) -> str:
    return "".join(f"{block[0]}\n" for block in _PEM.finditer(pem) if _KEY in block[2])


def certificates_in(pem: str) -> str:
    """Return the certificates without keys and without text between them."""
    return "".join(f"{block[0]}\n" for block in _PEM.finditer(pem) if _KEY not in block[2])


def _quote(value: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'


def _unquote(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value


def _in_lines(pem: str) -> str:
    """Restore line breaks: Java accepts PEM on one line, as continued lines of a file become, but OpenSSL does not."""
    return _PEM.sub(lambda block: block[0] if "\n" in block[3].strip() else _block_in_lines(block), pem)


def _block_in_lines(block: re.Match[str]) -> str:
    body = "".join(block[3].split())
    lines = [body[place : place + _PEM_LINE] for place in range(0, len(body), _PEM_LINE)]
    return "\n".join((block[1], *lines, f"{block[4]}\n"))

"""TLS and SASL by the names of Kafka's client configs, as the connector takes them. Pure.

Java's key stores are not read: PEM is, in a file or as the option's text.
"""

import re
from collections.abc import Mapping
from typing import Final

from odradek.client.security import MECHANISMS, Sasl, Security, Tls
from odradek.spark.errors import OptionError

_PROTOCOLS: Final = {
    "PLAINTEXT": (False, False),
    "SSL": (True, False),
    "SASL_PLAINTEXT": (False, True),
    "SASL_SSL": (True, True),
}
_JAAS_MODULES: Final = ("PlainLoginModule", "ScramLoginModule")


def security_options(options: Mapping[str, str]) -> Security:
    protocol = options.get("kafka.security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise OptionError(f"option kafka.security.protocol: {protocol!r} is none of {', '.join(_PROTOCOLS)}")
    has_tls, has_sasl = _PROTOCOLS[protocol]
    return Security(tls=_tls(options) if has_tls else None, sasl=_sasl(options) if has_sasl else None)


def _tls(options: Mapping[str, str]) -> Tls:
    for store in ("truststore", "keystore"):
        kind = options.get(f"kafka.ssl.{store}.type", "PEM" if f"kafka.ssl.{store}.location" not in options else "JKS")
        if kind.upper() != "PEM":
            raise OptionError(
                f"option kafka.ssl.{store}.type: {kind} is Java's own; give a PEM file, and set the type to PEM"
            )
    chain, key = options.get("kafka.ssl.keystore.certificate.chain"), options.get("kafka.ssl.keystore.key")
    if (chain is None) != (key is None):
        raise OptionError("options kafka.ssl.keystore.certificate.chain and kafka.ssl.keystore.key: give both")
    return Tls(
        authorities_file=options.get("kafka.ssl.truststore.location"),
        authorities=options.get("kafka.ssl.truststore.certificates"),
        own_file=options.get("kafka.ssl.keystore.location"),
        own=None if chain is None else f"{key}\n{chain}\n",
        key_password=options.get("kafka.ssl.key.password"),
        checks_host=options.get("kafka.ssl.endpoint.identification.algorithm", "https") != "",
    )


def _sasl(options: Mapping[str, str]) -> Sasl:
    mechanism = options.get("kafka.sasl.mechanism", "GSSAPI").upper()
    if mechanism not in MECHANISMS:
        raise OptionError(f"option kafka.sasl.mechanism: {mechanism} is not supported, {', '.join(MECHANISMS)} are")
    jaas = options.get("kafka.sasl.jaas.config", "")
    found = {name: _unquoted(value) for name, value in re.findall(r'(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|[^\s;]+)', jaas)}
    if "username" not in found or "password" not in found or not any(name in jaas for name in _JAAS_MODULES):
        module = _JAAS_MODULES[mechanism != MECHANISMS[0]]
        raise OptionError(f'option kafka.sasl.jaas.config: write it as …{module} required username="…" password="…";')
    return Sasl(mechanism=mechanism, username=found["username"], password=found["password"])


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value

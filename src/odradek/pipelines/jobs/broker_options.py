"""The data source's options for connecting to the brokers with the job's TLS and SASL settings.

Certificates and keys are passed as text, because executors do not have the driver's files.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

from odradek.client.java_key_stores import InvalidStore, as_pem
from odradek.client.security import Security, Tls
from odradek.client.security_configs import certificates_in, configs_of, keys_in

# Spark shows options in query plans and by default redacts only some of the secret ones.
HIDDEN_OPTIONS: Final = {"spark.sql.redaction.options.regex": r"(?i)url|^kafka\.(sasl|ssl)\."}


def broker_options(bootstrap: str, security: Security) -> dict[str, str]:
    """Return options for `format("odradek")`. Raises OSError if a file cannot be read."""
    if security.tls is not None:
        security = replace(security, tls=_without_files(security.tls))
    configs = {"bootstrap.servers": bootstrap, **configs_of(security)}
    return {f"kafka.{name}": value for name, value in configs.items()}


def _without_files(tls: Tls) -> Tls:
    try:
        tls = as_pem(tls)
    except InvalidStore as error:
        raise OSError(f"{error.config}: {error}") from None
    authorities, own = tls.authorities, tls.own
    if tls.authorities_file is not None:
        # Never empty, because then the system's certificates would be trusted.
        authorities = certificates_in(_text(tls.authorities_file)) or "\n"
    if tls.own_file is not None:
        text = _text(tls.own_file)
        own = keys_in(text) + certificates_in(text)
    return replace(tls, authorities_file=None, authorities=authorities, own_file=None, own=own)


def _text(file: str) -> str:
    # Text around the PEM blocks may have any encoding.
    return Path(file).read_text(errors="replace")

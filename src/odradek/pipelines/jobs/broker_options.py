"""How Spark reaches the brokers: as the job itself does, with what that was told of TLS and SASL.

Certificates and keys travel as text: an executor does not have the files of the machine where the job was started.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

from odradek.client.security import Security, Tls
from odradek.client.security_configs import certificates_in, configs_of, keys_in

# Spark shows options in plans. Passwords it knows by their names, a key it does not; what it hides by itself is "url".
HIDDEN_OPTIONS: Final = {"spark.sql.redaction.options.regex": r"(?i)url|^kafka\.(sasl|ssl)\."}


def broker_options(bootstrap: str, security: Security) -> dict[str, str]:
    """For `format("odradek")`. Raises OSError for a file that is gone since it was named."""
    if security.tls is not None:
        security = replace(security, tls=_without_files(security.tls))
    configs = {"bootstrap.servers": bootstrap, **configs_of(security)}
    return {f"kafka.{name}": value for name, value in configs.items()}


def _without_files(tls: Tls) -> Tls:
    authorities, own = tls.authorities, tls.own
    if tls.authorities_file is not None:
        # Never nothing at all, for which those of the system would be trusted.
        authorities = certificates_in(_text(tls.authorities_file)) or "\n"
    if tls.own_file is not None:
        text = _text(tls.own_file)
        own = keys_in(text) + certificates_in(text)
    return replace(tls, authorities_file=None, authorities=authorities, own_file=None, own=own)


def _text(file: str) -> str:
    # Beside PEM there may be names in any encoding.
    return Path(file).read_text(errors="replace")

"""Options that several commands share, with one name and one help text each."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from odradek.client.address import parse_bootstrap
from odradek.host.log_lines import JSON, TEXT
from odradek.text.errors import UserError
from odradek.text.output import OutputFormat

if TYPE_CHECKING:
    from odradek.client.cluster import Cluster
    from odradek.client.security import Security


class LogFormat(StrEnum):
    TEXT = TEXT
    JSON = JSON


DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        "--bootstrap-server",
        envvar="ODRADEK_BOOTSTRAP",
        metavar="HOST:PORT[,…]",
        help="Comma-separated broker addresses to connect to.",
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        envvar="ODRADEK_COMMAND_CONFIG",
        metavar="FILE",
        help="Client properties file with security.protocol, sasl.* and ssl.*, as for Kafka's tools.",
    ),
]
Timeout = Annotated[
    float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="Maximum time to wait for the operation.")
]
Format = Annotated[OutputFormat, typer.Option("--format", help="Output format.")]
LogFormatOption = Annotated[LogFormat, typer.Option("--log-format", help="Format of the nodes' log lines.")]
Configs = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="KEY=VALUE", help="Topic config to set. Repeatable."),
]


def open_cluster(bootstrap: str, timeout_s: float, command_config: Path | None = None) -> "Cluster":
    from odradek.client.cluster import Cluster

    try:
        addresses = parse_bootstrap(bootstrap)
    except ValueError as error:
        raise UserError(f"--bootstrap: {error}") from None
    return Cluster(addresses, timeout_s=timeout_s, security=read_security(command_config))


def read_security(command_config: Path | None) -> "Security":
    """Read TLS and SASL settings from the file; without a file there are none."""
    from odradek.client.security import NOTHING

    if command_config is None:
        return NOTHING
    # Imported only if needed, which keeps the start fast without it.
    from odradek.cli.command_config import security_of_file

    return security_of_file(command_config)


def parse_assignments(texts: Iterable[str] | None, option: str) -> dict[str, str]:
    """Parse `key=value` texts; the last value of a key wins."""
    found: dict[str, str] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UserError(f"{option} {text!r} is not in the form KEY=VALUE.")
        found[key.strip()] = value.strip()
    return found


def parse_choices(text: str | None, known: Sequence[str], option: str) -> list[str]:
    """Parse comma-separated names, ignoring case, and return them in their known spelling."""
    by_lower = {name.lower(): name for name in known}
    given = [part.strip() for part in (text or "").split(",") if part.strip()]
    for part in given:
        if part.lower() not in by_lower:
            raise UserError(f"{option}: unknown value {part!r}. Choose from {', '.join(known)}.")
    return [by_lower[part.lower()] for part in given]

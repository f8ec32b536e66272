"""Options that several commands share, so that they are called and explained the same everywhere."""

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
        help="One or more brokers of the cluster.",
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        envvar="ODRADEK_COMMAND_CONFIG",
        metavar="FILE",
        help="A client's properties: security.protocol, sasl.*, ssl.*, as Kafka's tools take them.",
    ),
]
Timeout = Annotated[
    float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="How long to try before giving up.")
]
Format = Annotated[OutputFormat, typer.Option("--format", help="Tables are for people, JSON is for programs.")]
LogFormatOption = Annotated[
    LogFormat, typer.Option("--log-format", help="Of what nodes write into their logs: lines of text, or JSON.")
]
Configs = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="KEY=VALUE", help="A config of the topic; may be repeated."),
]


def open_cluster(bootstrap: str, timeout_s: float, command_config: Path | None = None) -> "Cluster":
    from odradek.client.cluster import Cluster

    try:
        addresses = parse_bootstrap(bootstrap)
    except ValueError as error:
        raise UserError(f"--bootstrap: {error}") from None
    return Cluster(addresses, timeout_s=timeout_s, security=read_security(command_config))


def read_security(command_config: Path | None) -> "Security":
    """What the file says of TLS and SASL; without one there is neither."""
    from odradek.client.security import NOTHING

    if command_config is None:
        return NOTHING
    # Most do without, and start sooner.
    from odradek.cli.command_config import security_of_file

    return security_of_file(command_config)


def parse_assignments(texts: Iterable[str] | None, option: str) -> dict[str, str]:
    """`key=value` each, a later one winning over an earlier one of the same key."""
    found: dict[str, str] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UserError(f"{option} {text!r} is not of the form key=value")
        found[key.strip()] = value.strip()
    return found


def parse_choices(text: str | None, known: Sequence[str], option: str) -> list[str]:
    """Names of which there may be several, separated by commas, as they are spelled; case does not matter."""
    by_lower = {name.lower(): name for name in known}
    asked = [part.strip() for part in (text or "").split(",") if part.strip()]
    for part in asked:
        if part.lower() not in by_lower:
            raise UserError(f"{option} {part!r} is none of {', '.join(known)}")
    return [by_lower[part.lower()] for part in asked]

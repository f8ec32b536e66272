"""`odradek start`: run one node from a Kafka `server.properties` in this process."""

from typing import Annotated

import typer

from odradek.cli.options import LogFormat, LogFormatOption
from odradek.local.start_node import start_node


def command(
    file: Annotated[str, typer.Argument(metavar="FILE", show_default=False, help="A Kafka server.properties.")],
    override: Annotated[
        list[str] | None,
        typer.Option("--override", metavar="KEY=VALUE", help="Override a property of the file. Repeatable."),
    ] = None,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Run one node from a Kafka server.properties until Ctrl-C or SIGTERM."""
    raise typer.Exit(start_node(file, override or [], log_format))

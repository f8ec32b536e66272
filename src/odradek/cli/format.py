"""`odradek format`: format log directories as `kafka-storage format` does, with the same flags."""

from pathlib import Path
from random import SystemRandom
from typing import Annotated

import typer

from odradek.cli.options import parse_assignments
from odradek.core.metadata.records import UserScramCredentialRecord
from odradek.local.node_format import format_node
from odradek.local.start_node import load_config
from odradek.quorum.format import FormatRequest
from odradek.quorum.initial_controllers import InitialController, parse_initial_controllers
from odradek.quorum.scram_arguments import parse_scram_argument
from odradek.text.errors import UserError


def command(
    cluster_id: Annotated[
        str,
        typer.Option("--cluster-id", "-t", show_default=False, help="Cluster ID. `odradek random-uuid` generates one."),
    ],
    config: Annotated[
        Path, typer.Option("--config", "-c", show_default=False, help="The node's server.properties file.")
    ],
    standalone: Annotated[
        bool,
        typer.Option("--standalone", "-s", help="Start a dynamic quorum with this node as its only voter."),
    ] = False,
    no_initial_controllers: Annotated[
        bool, typer.Option("--no-initial-controllers", "-N", help="Format a node that joins an existing quorum.")
    ] = False,
    initial_controllers: Annotated[
        str | None,
        typer.Option(
            "--initial-controllers",
            "-I",
            metavar="ID@HOST:PORT:DIRECTORY[,…]",
            help="Initial voters of the quorum. Use the same list on every initial controller.",
        ),
    ] = None,
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", "-g", help="Skip directories that are already formatted.")
    ] = False,
    release_version: Annotated[
        str | None, typer.Option("--release-version", "-r", help="Kafka release that sets the initial feature levels.")
    ] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option("--feature", "-f", metavar="NAME=LEVEL", help="Initial level of a feature. Repeatable."),
    ] = None,
    add_scram: Annotated[
        list[str] | None,
        typer.Option(
            "--add-scram",
            "-S",
            metavar="CREDENTIAL",
            help="SCRAM credential with which the cluster starts, such as 'SCRAM-SHA-256=[name=alice,password=secret]'."
            " Keys: name, password (or saltedpassword and salt in base64), salt, iterations. Repeatable.",
        ),
    ] = None,
) -> None:
    """Format a node's log directories for a cluster, as `kafka-storage format` does."""
    if sum((standalone, no_initial_controllers, initial_controllers is not None)) > 1:
        raise UserError(
            "--standalone, --no-initial-controllers and --initial-controllers are mutually exclusive. Use one of them."
        )
    scram_credentials = _scram_credentials(add_scram)
    node_config = load_config(str(config))
    request = FormatRequest(
        cluster_id=cluster_id,
        is_standalone=standalone,
        initial_controllers=_initial_controllers(initial_controllers),
        joins_later=no_initial_controllers,
        release=release_version,
        feature_levels=_feature_levels(feature),
        scram_credentials=scram_credentials,
        ignore_formatted=ignore_formatted,
    )
    print(*format_node(node_config, request), sep="\n")


def _initial_controllers(text: str | None) -> tuple[InitialController, ...]:
    try:
        return () if text is None else parse_initial_controllers(text)
    except ValueError as error:
        raise UserError(f"--initial-controllers: {error}") from None


def _scram_credentials(arguments: list[str] | None) -> tuple[UserScramCredentialRecord, ...]:
    try:
        return tuple(parse_scram_argument(argument, SystemRandom()) for argument in arguments or ())
    except ValueError as error:
        raise UserError(f"--add-scram: {error}") from None


def _feature_levels(features: list[str] | None) -> dict[str, int]:
    levels: dict[str, int] = {}
    for name, level in parse_assignments(features, "--feature").items():
        if not (level.isascii() and level.isdigit()):
            raise UserError(f"--feature {name}={level}: the level must be a number. Example: metadata.version=30.")
        levels[name] = int(level)
    return levels

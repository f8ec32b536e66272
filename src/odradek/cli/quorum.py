"""`odradek quorum`: show the KRaft quorum and change its voters."""

from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from odradek.base.ids import uuid_from_text, uuid_to_text
from odradek.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Format, Timeout, open_cluster
from odradek.client.quorum import ControllerEndpoint, QuorumAdmin, QuorumReplica, QuorumStatus, leaders_time_ms
from odradek.local.start_node import load_config
from odradek.text.errors import UserError, as_sentence
from odradek.text.output import OutputFormat, print_json, print_table
from odradek.text.terminal import say
from odradek.text.times import format_span

app = typer.Typer(help="Show the controller quorum, and add or remove voters.", no_args_is_help=True)


@app.command()
def status(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Show the leader, its epoch, and the progress of each voter and observer.

    --bootstrap may name brokers or controllers.
    """
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        found = QuorumAdmin(cluster).describe()
    if format is OutputFormat.JSON:
        print_json(_as_json(found))
        return
    print_table(
        ("leader", "epoch", "high watermark", "voters", "observers"),
        [(found.leader_id, found.leader_epoch, found.high_watermark, len(found.voters), len(found.observers))],
    )
    now_ms = leaders_time_ms(found)
    print_table(
        ("node", "role", "end offset", "lag", "last fetch", "caught up", "endpoint", "directory"),
        [
            (
                replica.id,
                _role(found, replica),
                replica.log_end_offset,
                found.lag(replica),
                _ago(replica.last_fetch_ms, now_ms),
                _ago(replica.last_caught_up_ms, now_ms),
                replica.endpoints,
                replica.directory_id and uuid_to_text(replica.directory_id),
            )
            for replica in found.replicas
        ],
    )


# The name in Kafka's own tool.
app.command("describe", hidden=True)(status)


@app.command()
def add(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", show_default=False, help="The controller's server.properties file.")
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Add a controller to the voter set. It must be formatted with --no-initial-controllers and run on this machine."""
    from odradek.host.disk import HostDisk
    from odradek.storage.log.meta_properties import MalformedMetaProperties, read_meta_properties

    config = load_config(str(file))
    if not config.is_controller:
        raise UserError(f"{str(file)!r} does not configure a controller. Set process.roles=controller.")
    try:
        meta = read_meta_properties(HostDisk(), config.metadata_log_dir)
    except MalformedMetaProperties as error:
        raise UserError(str(error)) from None
    if meta is None or meta.directory_id is None:
        raise UserError(f"{config.metadata_log_dir!r} is not formatted. Run `odradek format` and start the node.")
    endpoints = [
        ControllerEndpoint(one.name, one.host or "localhost", one.port)
        for one in config.advertised_controller_listeners
    ]
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        QuorumAdmin(cluster).add_voter(config.node_id, meta.directory_id, endpoints, cluster_id=meta.cluster_id)
    say(f"Controller {config.node_id} was added to the voter set.")


@app.command()
def remove(
    node_id: Annotated[int, typer.Argument(metavar="ID", min=0, show_default=False, help="Node ID.")],
    directory_id: Annotated[
        str | None,
        typer.Option("--directory-id", metavar="DIRECTORY", help="Remove the voter only if it has this directory ID."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Remove a controller from the voter set. It continues as an observer until it is stopped."""
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        admin = QuorumAdmin(cluster)
        admin.remove_voter(node_id, _directory_of(admin, node_id, directory_id))
    say(f"Controller {node_id} was removed from the voter set.")


def _directory_of(admin: QuorumAdmin, node_id: int, given: str | None) -> UUID:
    if given is not None:
        try:
            return uuid_from_text(given)
        except ValueError as error:
            raise UserError(as_sentence(f"--directory-id: {error}")) from None
    voters = {voter.id: voter for voter in admin.describe().voters}
    if node_id not in voters:
        raise UserError(f"Node {node_id} is not a voter. Voters: {', '.join(map(str, sorted(voters)))}.")
    found = voters[node_id].directory_id
    if found is None:
        raise UserError("The quorum is static: change its voters with controller.quorum.voters in server.properties.")
    return found


def _role(found: QuorumStatus, replica: QuorumReplica) -> str:
    if not replica.is_voter:
        return "observer"
    return "leader" if replica.id == found.leader_id else "follower"


def _ago(moment_ms: int, now_ms: int) -> str:
    return f"{format_span(now_ms - moment_ms)} ago" if moment_ms >= 0 else "never"


def _as_json(found: QuorumStatus) -> dict[str, Any]:
    return {
        "leader": found.leader_id,
        "leader_epoch": found.leader_epoch,
        "high_watermark": found.high_watermark,
        "replicas": [
            {
                "node": replica.id,
                "role": _role(found, replica),
                "directory_id": replica.directory_id and uuid_to_text(replica.directory_id),
                "endpoints": [str(endpoint) for endpoint in replica.endpoints],
                "log_end_offset": replica.log_end_offset,
                "lag": found.lag(replica),
                "last_fetch_ms": replica.last_fetch_ms if replica.last_fetch_ms >= 0 else None,
                "last_caught_up_ms": replica.last_caught_up_ms if replica.last_caught_up_ms >= 0 else None,
            }
            for replica in found.replicas
        ],
    }

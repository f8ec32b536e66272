"""`odradek cluster`: the nodes of the cluster: what each is, where it is, and whether it serves."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from odradek.cli.balance import balance
from odradek.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Format, Timeout, open_cluster
from odradek.client.membership import Member, Members, brokers, unregister_broker
from odradek.client.quorum import SILENT_MS, QuorumAdmin, QuorumReplica, QuorumStatus, leaders_time_ms
from odradek.text.errors import UserError
from odradek.text.output import OutputFormat, print_json, print_table
from odradek.text.terminal import say
from odradek.text.times import format_span

app = typer.Typer(help="Show the nodes of the cluster, and how evenly they are used.")
app.command()(balance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One id, as a broker and as a controller: either part may be missing, not both."""

    id: int
    broker: Member | None
    controller: str | None
    """`active`, `voter` or `observer`."""
    silent_ms: int | None
    """For how long the active controller has not heard of it. None: it never has."""
    endpoints: tuple[str, ...]

    @property
    def roles(self) -> tuple[str, ...]:
        return (("broker",) if self.broker else ()) + (("controller",) if self.controller else ())

    @property
    def broker_state(self) -> str | None:
        return None if self.broker is None else "fenced" if self.broker.is_fenced else "online"

    @property
    def controller_state(self) -> str | None:
        if self.controller is not None and self.silent_ms is None:
            return f"{self.controller}, not heard of"
        if self.silent_ms is not None and self.silent_ms > SILENT_MS:
            return f"{self.controller}, silent for {format_span(self.silent_ms)}"
        return self.controller


@app.callback(invoke_without_command=True)
def show(
    context: typer.Context,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Show the nodes of the cluster: brokers online or fenced, controllers active, voting or observing."""
    if context.invoked_subcommand is not None:
        return
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        members = brokers(cluster)
        quorum = QuorumAdmin(cluster).describe()
    nodes = nodes_of(members, quorum)
    if format is OutputFormat.JSON:
        print_json(_as_json(members, quorum, nodes))
        return
    states = [node.broker_state for node in nodes]
    print_table(
        ("cluster", "brokers online", "fenced", "active controller", "voters"),
        [
            (
                members.cluster_id,
                states.count("online"),
                states.count("fenced"),
                quorum.leader_id,
                [voter.id for voter in sorted(quorum.voters, key=lambda voter: voter.id)],
            )
        ],
    )
    print_table(
        ("node", "roles", "broker", "controller", "rack", "endpoints"),
        [
            (
                node.id,
                node.roles,
                node.broker_state,
                node.controller_state,
                node.broker and node.broker.rack,
                node.endpoints,
            )
            for node in nodes
        ],
    )


@app.command()
def unregister(
    node_id: Annotated[int, typer.Argument(metavar="ID", min=0, show_default=False)],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Forget a broker that will not come back. Its replicas stay assigned to it until they are moved."""
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        known = brokers(cluster).nodes
        if node_id not in known:
            raise UserError(f"there is no broker {node_id}: the brokers are {', '.join(map(str, sorted(known)))}")
        if not known[node_id].is_fenced:
            raise UserError(f"broker {node_id} is online: stop it first, or it registers again at once")
        unregister_broker(cluster, node_id)
    say(f"broker {node_id}: forgotten")


def nodes_of(members: Members, quorum: QuorumStatus) -> list[Node]:
    """An observer that is a registered broker follows the metadata as brokers do; any other one is a controller, or
    was a broker until it was unregistered: it is left out when it has fallen silent.
    """
    now_ms = leaders_time_ms(quorum)
    replicas = {
        replica.id: replica
        for replica in quorum.replicas
        if replica.is_voter or (replica.id not in members.nodes and now_ms - replica.last_fetch_ms <= SILENT_MS)
    }
    return [
        _node(node_id, members.nodes.get(node_id), replicas.get(node_id), quorum, now_ms)
        for node_id in sorted(members.nodes.keys() | replicas.keys())
    ]


def _node(
    node_id: int, broker: Member | None, replica: QuorumReplica | None, quorum: QuorumStatus, now_ms: int
) -> Node:
    controller = None
    silent_ms = None
    endpoints: tuple[str, ...] = (str(broker.address),) if broker else ()
    if replica is not None:
        controller = "active" if node_id == quorum.leader_id else "voter" if replica.is_voter else "observer"
        heard_ms = now_ms if controller == "active" else replica.last_fetch_ms
        silent_ms = now_ms - heard_ms if heard_ms >= 0 else None
        endpoints += tuple(map(str, replica.endpoints))
    return Node(id=node_id, broker=broker, controller=controller, silent_ms=silent_ms, endpoints=endpoints)


def _as_json(members: Members, quorum: QuorumStatus, nodes: list[Node]) -> dict[str, Any]:
    return {
        "cluster_id": members.cluster_id,
        "active_controller": quorum.leader_id,
        "nodes": [
            {
                "node": node.id,
                "roles": node.roles,
                "broker": node.broker_state,
                "controller": node.controller,
                "silent_ms": node.silent_ms,
                "rack": node.broker and node.broker.rack,
                "endpoints": node.endpoints,
            }
            for node in nodes
        ],
    }

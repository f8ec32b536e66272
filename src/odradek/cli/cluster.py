"""`odradek cluster`: the nodes of the cluster with their roles, endpoints and states."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from odradek.cli.balance import balance
from odradek.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Format, Timeout, open_cluster
from odradek.client.membership import Member, Members, brokers, unregister_broker
from odradek.client.quorum import UNRESPONSIVE_MS, QuorumAdmin, QuorumReplica, QuorumStatus, leaders_time_ms
from odradek.text.errors import UserError
from odradek.text.output import OutputFormat, print_json, print_table
from odradek.text.terminal import say
from odradek.text.times import format_span

app = typer.Typer(help="Show the nodes of the cluster and how evenly the load is spread.")
app.command()(balance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node id with its broker part, its controller part, or both."""

    id: int
    broker: Member | None
    controller: str | None
    """`active`, `voter` or `observer`."""
    last_fetch_age_ms: int | None
    """Time since the active controller last received a Fetch from it; None if it never has."""
    endpoints: tuple[str, ...]

    @property
    def roles(self) -> tuple[str, ...]:
        return (("broker",) if self.broker else ()) + (("controller",) if self.controller else ())

    @property
    def broker_state(self) -> str | None:
        return None if self.broker is None else "fenced" if self.broker.is_fenced else "online"

    @property
    def controller_state(self) -> str | None:
        if self.controller is not None and self.last_fetch_age_ms is None:
            return f"{self.controller}, never connected"
        if self.last_fetch_age_ms is not None and self.last_fetch_age_ms > UNRESPONSIVE_MS:
            return f"{self.controller}, unresponsive for {format_span(self.last_fetch_age_ms)}"
        return self.controller


@app.callback(invoke_without_command=True)
def show(
    context: typer.Context,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Show the nodes of the cluster: brokers (online or fenced) and controllers (active, voter or observer)."""
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
    node_id: Annotated[int, typer.Argument(metavar="ID", min=0, show_default=False, help="Broker ID.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Unregister a broker that was removed permanently. Its replicas stay assigned to it until they are reassigned."""
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        known = brokers(cluster).nodes
        if node_id not in known:
            raise UserError(f"Broker {node_id} is not registered. Known brokers: {', '.join(map(str, sorted(known)))}.")
        if not known[node_id].is_fenced:
            raise UserError(f"Broker {node_id} is online and would register again. Stop it first.")
        unregister_broker(cluster, node_id)
    say(f"Unregistered broker {node_id}.")


def nodes_of(members: Members, quorum: QuorumStatus) -> list[Node]:
    """Merge brokers and quorum replicas by node id.

    A registered broker is an observer of the metadata log, so it is not shown as a controller. An observer that is
    not registered is a controller or an unregistered broker; it is left out once it has stopped fetching.
    """
    now_ms = leaders_time_ms(quorum)
    replicas = {
        replica.id: replica
        for replica in quorum.replicas
        if replica.is_voter or (replica.id not in members.nodes and now_ms - replica.last_fetch_ms <= UNRESPONSIVE_MS)
    }
    return [
        _node(node_id, members.nodes.get(node_id), replicas.get(node_id), quorum, now_ms)
        for node_id in sorted(members.nodes.keys() | replicas.keys())
    ]


def _node(
    node_id: int, broker: Member | None, replica: QuorumReplica | None, quorum: QuorumStatus, now_ms: int
) -> Node:
    controller = None
    last_fetch_age_ms = None
    endpoints: tuple[str, ...] = (str(broker.address),) if broker else ()
    if replica is not None:
        controller = "active" if node_id == quorum.leader_id else "voter" if replica.is_voter else "observer"
        last_fetch_ms = now_ms if controller == "active" else replica.last_fetch_ms
        last_fetch_age_ms = now_ms - last_fetch_ms if last_fetch_ms >= 0 else None
        endpoints += tuple(map(str, replica.endpoints))
    return Node(
        id=node_id, broker=broker, controller=controller, last_fetch_age_ms=last_fetch_age_ms, endpoints=endpoints
    )


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
                "silent_ms": node.last_fetch_age_ms,
                "rack": node.broker and node.broker.rack,
                "endpoints": node.endpoints,
            }
            for node in nodes
        ],
    }

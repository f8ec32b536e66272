"""Sets up the nodes of a new cluster on disk, as `odradek up` does: `server.properties` and formatted directories."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from odradek.config.node_config import NodeConfig
from odradek.local.node_files import (
    HOST,
    PLAINTEXT_VALUES,
    NodeFiles,
    escape_path,
    listener_values,
    new_properties,
    replication_values,
    with_values,
)
from odradek.local.node_format import format_nodes
from odradek.local.security_files import SecurityFiles
from odradek.local.start_node import parse_config
from odradek.local.topology import Topology


def set_up(
    directory: Path,
    topology: Topology,
    ports: Sequence[int],
    properties: Mapping[str, str],
    security: SecurityFiles | None = None,
) -> dict[int, NodeConfig]:
    """Set up all nodes. Raises ConfigErrors for invalid properties.

    `ports` has one port for each role of each node; in a secure cluster, each broker needs another one.
    """
    free = iter(ports)
    at_clients = {number: next(free) for number in topology.brokers}
    at_controllers = {number: next(free) for number in topology.controllers}
    at_brokers = {} if security is None else {number: next(free) for number in topology.brokers}
    if security is not None:
        security.prepare(tuple(topology.roles), is_new=True)
    replicas = replication_values(len(topology.brokers))
    configs: dict[int, NodeConfig] = {}
    for number, roles in topology.roles.items():
        files = NodeFiles(directory, number)
        listeners = listener_values(at_clients.get(number), at_controllers.get(number), at_brokers.get(number))
        protection = PLAINTEXT_VALUES if security is None else security.node_values(number)
        quorum = _quorum_values(number, at_controllers)
        text = new_properties(number, sorted(roles), listeners, quorum, replicas, security=protection)
        text = with_values(text, {"log.dirs": escape_path(files.data)})
        configs[number] = parse_config(text, str(files.properties), dict(properties))
        files.write_properties(text)
    format_nodes(configs, administrator=None if security is None else security.administrator())
    return configs


def _quorum_values(number: int, at_controllers: Mapping[int, int]) -> dict[str, str]:
    """Return the other controllers as bootstrap servers, or the node itself if it is the only controller."""
    ports = [port for one, port in at_controllers.items() if one != number] or list(at_controllers.values())
    return {"controller.quorum.bootstrap.servers": ",".join(f"{HOST}:{port}" for port in ports)}

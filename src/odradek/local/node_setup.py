"""Finds the nodes of earlier runs in a data directory, and plans the configuration of all nodes."""

from collections.abc import Collection, Mapping
from pathlib import Path

from odradek.client.address import DEFAULT_PORT
from odradek.config.node_config import NodeConfig
from odradek.host.disk import HostDisk
from odradek.local.node_files import (
    BROKER_LISTENER,
    HOST,
    PLAINTEXT_VALUES,
    NodeFiles,
    escape_path,
    listener_values,
    new_properties,
    replication_values,
    with_values,
)
from odradek.local.ports import broker_ports, client_ports, controller_ports, http_ports
from odradek.local.security_files import SecurityFiles
from odradek.local.topology import Topology
from odradek.storage.log.meta_properties import MalformedMetaProperties, MetaProperties, read_meta_properties
from odradek.text.errors import UserError

_QUORUM_KEYS = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")

Configs = Mapping[int, NodeConfig]


def existing_nodes(data_dir: Path) -> dict[int, NodeFiles]:
    """Return the nodes of earlier runs, in the order of their ids."""
    numbers = (path.parent.name.removeprefix("node-") for path in data_dir.glob("node-*/server.properties"))
    return {number: NodeFiles(data_dir, number) for number in sorted(int(text) for text in numbers if text.isdecimal())}


def is_secure(existing: Configs) -> bool:
    """Whether the cluster was created with --secure."""
    return any(config.is_broker and _broker_port(config) is not None for config in existing.values())


def _broker_port(config: NodeConfig) -> int | None:
    """The port for other brokers, in a secure cluster."""
    return next((one.port for one in config.broker_listeners if one.name == BROKER_LISTENER), None)


def plan_nodes(
    data_dir: Path, existing: Configs, topology: Topology, port: int | None, security: SecurityFiles | None = None
) -> dict[int, str]:
    """Return the text of every node's server.properties, new or updated. Nothing is written yet."""
    at_controllers = {
        number: config.controller_listeners[0].port for number, config in existing.items() if config.is_controller
    }
    if port in at_controllers.values():
        raise UserError(f"Port {port} belongs to a controller of this cluster. Choose another port with --port.")
    at_clients = _client_ports(existing, topology, port, frozenset(at_controllers.values()))
    found = controller_ports(at_clients[topology.brokers[0]])
    at_controllers |= {number: next(found) for number in topology.controllers if number not in at_controllers}
    quorum = _quorum_values(existing) or {
        _QUORUM_KEYS[1]: ",".join(f"{HOST}:{at_controllers[number]}" for number in topology.controllers)
    }
    replicas = _replication_values(existing, len(topology.brokers))
    at_http = {config.http_address.port for config in existing.values() if config.http_address is not None}
    taken = {*at_clients.values(), *at_controllers.values(), *at_http}
    at_brokers = {} if security is None else _broker_ports(existing, topology, at_clients, taken)
    free_for_http = http_ports(at_clients[topology.brokers[0]], {*taken, *at_brokers.values()})
    texts: dict[int, str] = {}
    for number, roles in topology.roles.items():
        files = NodeFiles(data_dir, number)
        listeners = listener_values(at_clients.get(number), at_controllers.get(number), at_brokers.get(number))
        values = {"log.dirs": escape_path(files.data)}
        if number not in existing:
            protection = PLAINTEXT_VALUES if security is None else security.node_values(number)
            http = next(free_for_http)
            text = new_properties(number, sorted(roles), listeners, quorum, replicas, http, security=protection)
        else:
            text = files.read_properties()
            if number in at_clients and existing[number].advertised_listeners[0].port != at_clients[number]:
                values |= listeners
            if security is not None:
                values |= security.moved_values(number, text)
        texts[number] = with_values(text, values)
    return texts


def _client_ports(existing: Configs, topology: Topology, port: int | None, taken: frozenset[int]) -> dict[int, int]:
    """With --port, number all brokers from that port; without it, existing brokers keep their ports."""
    known = (
        {}
        if port is not None
        else {number: config.advertised_listeners[0].port for number, config in existing.items() if config.is_broker}
    )
    first = port if port is not None else max(known.values(), default=DEFAULT_PORT - 1) + 1
    ports = client_ports(first, taken)
    return {number: known[number] if number in known else next(ports) for number in topology.brokers}


def _broker_ports(
    existing: Configs, topology: Topology, at_clients: Mapping[int, int], taken: Collection[int]
) -> dict[int, int]:
    known = {number: found for number, config in existing.items() if (found := _broker_port(config)) is not None}
    ports = broker_ports(at_clients[topology.brokers[0]], {*taken, *known.values()})
    return {number: known[number] if number in known else next(ports) for number in topology.brokers}


def _quorum_values(existing: Configs) -> dict[str, str]:
    """New nodes find the quorum with the same configs as the existing nodes."""
    for config in existing.values():
        return {key: config.values[key] for key in _QUORUM_KEYS if key in config.values}
    return {}


def _replication_values(existing: Configs, brokers: int) -> dict[str, str]:
    """New nodes copy the existing nodes' values, so that all brokers create topics with the same defaults."""
    values = replication_values(brokers)
    for config in existing.values():
        return {key: config.values[key] for key in values if key in config.values}
    return values


def are_formatted(configs: Configs) -> bool:
    directories = ((config, one) for config in configs.values() for one in {config.metadata_log_dir, *config.log_dirs})
    return all(meta_of(config, directory) is not None for config, directory in directories)


def cluster_of(configs: Configs) -> str | None:
    """Return the nodes' cluster ID, or None if none is formatted. Raises UserError if the IDs differ."""
    found: dict[str, str] = {}
    for config in configs.values():
        for directory in config.log_dirs:
            meta = meta_of(config, directory)
            if meta is not None:
                found[meta.cluster_id] = directory
    if len(found) > 1:
        raise UserError(
            f"{' and '.join(map(repr, found.values()))} belong to different clusters. Choose another --data-dir."
        )
    return next(iter(found), None)


def meta_of(config: NodeConfig, directory: str) -> MetaProperties | None:
    """Read the directory's meta.properties, or None if it is not formatted. Raises UserError for another node's."""
    try:
        meta = read_meta_properties(HostDisk(), directory)
    except MalformedMetaProperties as error:
        raise UserError(f"{error}. Use --fresh to delete the cluster and create a new one.") from None
    if meta is not None and meta.node_id != config.node_id:
        raise UserError(
            f"{directory!r} belongs to node {meta.node_id} of cluster {meta.cluster_id}, not to node "
            f"{config.node_id}. Choose another --data-dir, or use --fresh to delete it."
        )
    return meta

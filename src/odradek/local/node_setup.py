"""The nodes of a data directory: those of earlier runs, whose they are, and the configuration of all, new or mended."""

from collections.abc import Mapping
from pathlib import Path

from odradek.client.address import DEFAULT_PORT
from odradek.config.node_config import NodeConfig
from odradek.host.disk import HostDisk
from odradek.local.node_files import (
    HOST,
    NodeFiles,
    escape_path,
    listener_values,
    new_properties,
    replication_values,
    with_values,
)
from odradek.local.ports import client_ports, controller_ports, http_ports
from odradek.local.topology import Topology
from odradek.storage.log.meta_properties import MalformedMetaProperties, MetaProperties, read_meta_properties
from odradek.text.errors import UserError

_QUORUM_KEYS = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")

Configs = Mapping[int, NodeConfig]


def existing_nodes(data_dir: Path) -> dict[int, NodeFiles]:
    """Those of earlier runs, in the order of their ids."""
    numbers = (path.parent.name.removeprefix("node-") for path in data_dir.glob("node-*/server.properties"))
    return {number: NodeFiles(data_dir, number) for number in sorted(int(text) for text in numbers if text.isdecimal())}


def plan_nodes(data_dir: Path, there: Configs, topology: Topology, port: int | None) -> dict[int, str]:
    """Every node's server.properties: a new one, or that of an earlier run, mended. Nothing is written yet."""
    at_controllers = {
        number: config.controller_listeners[0].port for number, config in there.items() if config.is_controller
    }
    if port in at_controllers.values():
        raise UserError(f"a controller of this cluster listens at port {port}: choose another --port")
    at_clients = _client_ports(there, topology, port, frozenset(at_controllers.values()))
    found = controller_ports(at_clients[topology.brokers[0]])
    at_controllers |= {number: next(found) for number in topology.controllers if number not in at_controllers}
    quorum = _quorum_values(there) or {
        _QUORUM_KEYS[1]: ",".join(f"{HOST}:{at_controllers[number]}" for number in topology.controllers)
    }
    replicas = _replication_values(there, len(topology.brokers))
    at_http = {config.http_address.port for config in there.values() if config.http_address is not None}
    free_for_http = http_ports(
        at_clients[topology.brokers[0]], {*at_clients.values(), *at_controllers.values(), *at_http}
    )
    texts: dict[int, str] = {}
    for number, roles in topology.roles.items():
        files = NodeFiles(data_dir, number)
        listeners = listener_values(at_clients.get(number), at_controllers.get(number))
        values = {"log.dirs": escape_path(files.data)}
        if number not in there:
            text = new_properties(number, sorted(roles), listeners, quorum, replicas, next(free_for_http))
        else:
            text = files.read_properties()
            if number in at_clients and there[number].advertised_listeners[0].port != at_clients[number]:
                values |= listeners
        texts[number] = with_values(text, values)
    return texts


def _client_ports(there: Configs, topology: Topology, port: int | None, taken: frozenset[int]) -> dict[int, int]:
    """With --port all brokers from there on; without it those of earlier runs stay where they were."""
    known = (
        {}
        if port is not None
        else {number: config.advertised_listeners[0].port for number, config in there.items() if config.is_broker}
    )
    first = port if port is not None else max(known.values(), default=DEFAULT_PORT - 1) + 1
    ports = client_ports(first, taken)
    return {number: known[number] if number in known else next(ports) for number in topology.brokers}


def _quorum_values(there: Configs) -> dict[str, str]:
    """As the nodes that are there find each other, new ones find them."""
    for config in there.values():
        return {key: config.values[key] for key in _QUORUM_KEYS if key in config.values}
    return {}


def _replication_values(there: Configs, brokers: int) -> dict[str, str]:
    """A new node goes by what the old ones say: topics must not differ by who was asked to create them."""
    values = replication_values(brokers)
    for config in there.values():
        return {key: config.values[key] for key in values if key in config.values}
    return values


def are_formatted(configs: Configs) -> bool:
    directories = ((config, one) for config in configs.values() for one in {config.metadata_log_dir, *config.log_dirs})
    return all(meta_of(config, directory) is not None for config, directory in directories)


def cluster_of(configs: Configs) -> str | None:
    """The cluster that the nodes belong to; None if none of them does yet. Raises UserError if they differ."""
    found: dict[str, str] = {}
    for config in configs.values():
        for directory in config.log_dirs:
            meta = meta_of(config, directory)
            if meta is not None:
                found[meta.cluster_id] = directory
    if len(found) > 1:
        raise UserError(
            f"{' and '.join(map(repr, found.values()))} belong to different clusters: choose another --data-dir"
        )
    return next(iter(found), None)


def meta_of(config: NodeConfig, directory: str) -> MetaProperties | None:
    """Whose directory it is; None if it is not formatted. Raises UserError if it is another node's."""
    try:
        meta = read_meta_properties(HostDisk(), directory)
    except MalformedMetaProperties as error:
        raise UserError(f"{error}; --fresh deletes everything and begins anew") from None
    if meta is not None and meta.node_id != config.node_id:
        raise UserError(
            f"{directory!r} belongs to node {meta.node_id} of cluster {meta.cluster_id}, not to node "
            f"{config.node_id}: choose another --data-dir, or --fresh to delete it"
        )
    return meta

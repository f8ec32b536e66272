"""The nodes of a simulated cluster, their roles and their configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from odradek.quorum.format import new_directory_id
from odradek.quorum.initial_controllers import InitialController
from odradek.sim.secured_nodes import CLIENT_LISTENER, secured_properties

CLIENT_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How many nodes of each kind; they are numbered from 1 on, voters first."""

    combined: int = 0
    controllers: int = 0
    brokers: int = 0
    host_sizes: tuple[int, ...] = ()
    """The number of brokers on each host, which their endpoints name; the other nodes are on hosts of their own."""

    def roles(self) -> Sequence[str]:
        return (
            *("broker,controller",) * self.combined,
            *("controller",) * self.controllers,
            *("broker",) * self.brokers,
        )

    @property
    def is_one_node(self) -> bool:
        return len(self.roles()) == 1


ONE_NODE: Final = Layout(combined=1)
THREE_COMBINED: Final = Layout(combined=3)
THREE_COMBINED_ONE_BROKER: Final = Layout(combined=3, brokers=1)
THREE_CONTROLLERS_THREE_BROKERS: Final = Layout(controllers=3, brokers=3)
THREE_CONTROLLERS_THREE_HOSTS: Final = Layout(controllers=3, brokers=5, host_sizes=(3, 1, 1))
THREE_CONTROLLERS_TWO_BROKERS: Final = Layout(controllers=3, brokers=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedNode:
    node_id: int
    name: str
    roles: str
    properties: Mapping[str, str]
    host: str
    """The name in its endpoints."""
    client_port: int = CLIENT_PORT

    @property
    def is_voter(self) -> bool:
        return "controller" in self.roles

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    nodes: tuple[PlannedNode, ...]
    initial_controllers: tuple[InitialController, ...]
    """The first voters, where they are known by their directories; else they are configured."""

    @property
    def voters(self) -> tuple[PlannedNode, ...]:
        return tuple(node for node in self.nodes if node.is_voter)

    @property
    def brokers(self) -> tuple[PlannedNode, ...]:
        return tuple(node for node in self.nodes if node.is_broker)


def plan_nodes(
    layout: Layout, random: Random, properties: Mapping[str, str] | None = None, *, is_secured: bool = False
) -> Plan:
    """Configurations in which rare events happen often. `properties` override the drawn values."""
    roles_of = dict(enumerate(layout.roles(), start=1))
    voter_ids = [node_id for node_id, roles in roles_of.items() if "controller" in roles]
    shared = _shared_properties(layout, random)
    initial_controllers: tuple[InitialController, ...] = ()
    if random.random() < 0.5:
        voters = (f"{node_id}@{_name(node_id)}:{CONTROLLER_PORT}" for node_id in voter_ids)
        shared["controller.quorum.voters"] = ",".join(voters)
    else:
        servers = (f"{_name(node_id)}:{CONTROLLER_PORT}" for node_id in voter_ids)
        shared["controller.quorum.bootstrap.servers"] = ",".join(servers)
        initial_controllers = tuple(
            InitialController(node_id, _name(node_id), CONTROLLER_PORT, new_directory_id(random))
            for node_id in voter_ids
        )
    hosts = _hosts_of_brokers(layout, [node_id for node_id, roles in roles_of.items() if roles == "broker"])
    nodes = []
    for node_id, roles in roles_of.items():
        host, client_port = hosts.get(node_id, (_name(node_id), CLIENT_PORT))
        client_listener = CLIENT_LISTENER if is_secured else "PLAINTEXT"
        own = _own_properties(node_id, roles, f"{client_listener}://{_name(node_id)}:{client_port}", random)
        if is_secured:
            own |= secured_properties(_name(node_id), map(_name, roles_of))
        if node_id in hosts:
            own["advertised.listeners"] = f"PLAINTEXT://{host}:{client_port}"
        nodes.append(
            PlannedNode(
                node_id=node_id,
                name=_name(node_id),
                roles=roles,
                properties=shared | own | dict(properties or {}),
                host=host,
                client_port=client_port,
            )
        )
    return Plan(nodes=tuple(nodes), initial_controllers=initial_controllers)


def _hosts_of_brokers(layout: Layout, broker_ids: Sequence[int]) -> dict[int, tuple[str, int]]:
    """The host name and the port of each broker that shares its host."""
    hosts = [f"host{number}" for number, size in enumerate(layout.host_sizes, start=1) for _ in range(size)]
    return {node_id: (host, CLIENT_PORT + node_id) for node_id, host in zip(broker_ids, hosts, strict=False)}


def _shared_properties(layout: Layout, random: Random) -> dict[str, str]:
    properties = {
        "controller.listener.names": "CONTROLLER",
        "log.initial.task.delay.ms": "1000",
        "log.flush.offset.checkpoint.interval.ms": random.choice(("500", "2000", "60000")),
        "log.flush.start.offset.checkpoint.interval.ms": "2000",
        "replica.high.watermark.checkpoint.interval.ms": "1000",
        "log.retention.check.interval.ms": "3000",
        "log.segment.delete.delay.ms": random.choice(("100", "60000")),
        "metadata.log.max.record.bytes.between.snapshots": random.choice(("1000", "100000")),
        "internal.metadata.log.segment.bytes": random.choice(("2000", "1000000")),
    }
    if not layout.is_one_node:
        properties |= {
            "broker.session.timeout.ms": random.choice(("2000", "9000")),
            "broker.heartbeat.interval.ms": "500",
            "broker.disconnect.grace.ms": random.choice(("0", "300", "300")),
            "controller.quorum.election.timeout.ms": random.choice(("300", "1000")),
            "controller.quorum.fetch.timeout.ms": random.choice(("600", "2000")),
            "controller.quorum.election.backoff.max.ms": "300",
        }
    return properties


def _own_properties(node_id: int, roles: str, client_listener: str, random: Random) -> dict[str, str]:
    listeners = []
    if "broker" in roles:
        listeners.append(client_listener)
    if "controller" in roles:
        listeners.append(f"CONTROLLER://{_name(node_id)}:{CONTROLLER_PORT}")
    return {
        "process.roles": roles,
        "node.id": str(node_id),
        "listeners": ",".join(listeners),
        "log.dirs": random.choice(("/data", "/data1,/data2")),
    }


def _name(node_id: int) -> str:
    return f"node{node_id}"

"""A cluster of several processes on this computer, whose nodes can be killed, frozen, woken and queried individually.

The member class decides whether a node runs Odradek or Apache Kafka. Every wait has a timeout whose error names the
awaited condition, and on failure `real_cluster` prints the last lines of every node's log.
"""

import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from odradek.base.errors import KafkaError
from odradek.base.ids import uuid_to_text
from odradek.client.address import Address
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.membership import brokers
from odradek.client.quorum import QuorumAdmin, QuorumStatus
from odradek.client.security import NOTHING, Security
from tests.kafka.apache_kafka import ApacheKafka
from tests.node_process import NodeProcess, free_ports
from tests.odradek_process import OdradekProcess
from tests.patience import Patience

BROKER, CONTROLLER = "broker", "controller"
COMBINED = (BROKER, CONTROLLER)
REPLICATED_COORDINATORS = {
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}
"""With three brokers, groups and transactions keep working after the death of any one of them."""
WAIT_S = 30.0
WAIT_INTERVAL_S = 0.01


class Member(NodeProcess):
    """One node of a cluster; `RealCluster` sets its ID and roles."""

    node_id: int
    roles: Sequence[str]
    command_prefix: Sequence[str] = ()
    """Prefix of the start command, for example to run the process in a network namespace."""
    format_options: Sequence[str] = ()

    @property
    def is_broker(self) -> bool:
        return BROKER in self.roles

    @property
    def is_controller(self) -> bool:
        return CONTROLLER in self.roles

    @property
    def address(self) -> Address:
        """Its client listener, or its controller listener if it is not a broker."""
        return Address(self.host, self.port if self.is_broker else self.controller_port)

    @property
    def voter(self) -> str:
        return f"{self.node_id}@{self.host}:{self.controller_port}"

    @property
    def output(self) -> str:
        return self.output_file.read_text(errors="replace") if self.output_file.exists() else ""

    def log_files(self, topic: str, partition: int) -> list[Path]:
        """The segment files of its replica in offset order; empty if it has no replica."""
        name = f"{topic}-{partition}"
        return [file for log_dir in self.log_dirs for file in sorted((log_dir / name).glob("*.log"))]

    def log_bytes(self, topic: str, partition: int) -> bytes:
        return b"".join(file.read_bytes() for file in self.log_files(topic, partition))

    def is_ready(self) -> bool:
        if self.is_broker:
            return super().is_ready()
        try:
            socket.create_connection((self.host, self.controller_port), timeout=2).close()
        except OSError:
            return False
        return True

    def server_properties(self) -> dict[str, str]:
        listeners = {
            BROKER: f"PLAINTEXT://{self.host}:{self.port}",
            CONTROLLER: f"CONTROLLER://{self.host}:{self.controller_port}",
        }
        common = super().server_properties()
        # `RealCluster` sets the voters, with this key or with bootstrap servers.
        del common["controller.quorum.voters"]
        return {
            **common,
            "process.roles": ",".join(self.roles),
            "node.id": str(self.node_id),
            "listeners": ",".join(listeners[role] for role in self.roles),
            **self.properties,
        }

    def freeze(self) -> None:
        """SIGSTOP: the process keeps its connections but does nothing."""
        self._send(signal.SIGSTOP)

    def wake(self) -> None:
        self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        assert self.process is not None, "the node was not started"
        self.process.send_signal(number)


class OdradekMember(Member, OdradekProcess):
    def format_command(self) -> list[str]:
        return [*super().format_command(), *self.format_options]

    def start_command(self) -> list[str]:
        return [*self.command_prefix, *super().start_command()]


class KafkaMember(Member, ApacheKafka):
    def format_command(self) -> list[str]:
        return [*super().format_command(), *self.format_options]


class RealCluster:
    def __init__(
        self,
        directory: Path,
        roles: Mapping[int, Sequence[str]],
        *,
        properties: Mapping[str, str] | None = None,
        new_member: Callable[[Path], Member] = OdradekMember,
        hosts: Mapping[int, str] | None = None,
        command_prefixes: Mapping[int, Sequence[str]] | None = None,
        dynamic_voters: bool = False,
        properties_of: Mapping[int, Mapping[str, str]] | None = None,
    ) -> None:
        """`dynamic_voters`: the quorum reads its voters from its log (kraft.version 1), not from its configuration.
        `properties_of` single nodes override the properties of all nodes."""
        self.directory = directory
        self.started_in_s = 0.0
        self.security: Security = NOTHING
        """Of connections of the test."""
        self.nodes: dict[int, Member] = {}
        for node_id, its_roles in roles.items():
            self.nodes[node_id] = node = new_member(directory / f"node-{node_id}")
            node.node_id, node.roles = node_id, its_roles
            node.host = (hosts or {}).get(node_id, node.host)
            node.command_prefix = (command_prefixes or {}).get(node_id, ())
        ports = iter(free_ports(2 * len(self.nodes)))
        for node in self.nodes.values():
            node.port, node.controller_port = next(ports), next(ports)
        controllers = [node for node in self.nodes.values() if node.is_controller]
        self.voters = ",".join(node.voter for node in controllers)
        quorum = {"controller.quorum.voters": self.voters}
        if dynamic_voters:
            quorum = {"controller.quorum.bootstrap.servers": ",".join(one.voter.split("@")[1] for one in controllers)}
            with_directories = ",".join(f"{one.voter}:{uuid_to_text(uuid4())}" for one in controllers)
            for node in controllers:
                node.format_options = ("--initial-controllers", with_directories)
        for node in self.nodes.values():
            node.properties = {**quorum, **(properties or {}), **(properties_of or {}).get(node.node_id, {})}

    # Lifecycle

    def start(self) -> None:
        """Sets `started_in_s` to the time until all nodes serve, without the time for formatting."""
        # Each node's format command is a slow process, so run them in parallel.
        with ThreadPoolExecutor(len(self.nodes)) as threads:
            list(threads.map(Member.prepare, self.nodes.values()))
        began_at = time.monotonic()
        for node in self.nodes.values():
            node.spawn()
        for node in self.nodes.values():
            node.wait_until_ready()
        self.wait_until_whole()
        self.started_in_s = time.monotonic() - began_at

    def remove(self) -> None:
        for node in self.nodes.values():
            node.remove()

    # Queries

    @property
    def running(self) -> list[Member]:
        return [node for node in self.nodes.values() if node.is_running]

    @property
    def brokers(self) -> list[Member]:
        return [node for node in self.nodes.values() if node.is_broker]

    @property
    def bootstrap(self) -> str:
        """Addresses of all running brokers."""
        return ",".join(node.bootstrap for node in self.running if node.is_broker)

    @contextmanager
    def client(self, *node_ids: int, timeout_s: float = 10.0) -> Iterator[Cluster]:
        """Connect to these nodes, or to all running brokers."""
        targets = [self.nodes[node_id] for node_id in node_ids] or [node for node in self.running if node.is_broker]
        addresses = [node.address for node in targets]
        with Cluster(addresses, timeout_s=timeout_s, security=self.security) as cluster:
            yield cluster

    def quorum_status(self, *node_ids: int, timeout_s: float = 10.0) -> QuorumStatus:
        with self.client(*node_ids, timeout_s=timeout_s) as cluster:
            return QuorumAdmin(cluster).describe()

    def active_controller(self, *node_ids: int) -> Member:
        """According to these nodes, or to any running broker."""
        return self.leadership(*node_ids)[0]

    def leadership(self, *node_ids: int) -> tuple[Member, int]:
        """The active controller and its epoch, from one response."""
        found: list[QuorumStatus] = []

        def is_there() -> bool:
            try:
                found[:] = [self.quorum_status(*node_ids, timeout_s=2.0)]
            except (ClientError, KafkaError):
                return False
            return found[0].leader_id in self.nodes

        wait_for("an active controller", is_there)
        return self.nodes[found[0].leader_id], found[0].leader_epoch

    def fenced(self, *node_ids: int, timeout_s: float = 5.0) -> set[int]:
        """The fenced brokers, according to one of these nodes."""
        with self.client(*node_ids, timeout_s=timeout_s) as cluster:
            return {member.id for member in brokers(cluster).nodes.values() if member.is_fenced}

    def unfenced(self, *node_ids: int, timeout_s: float = 5.0) -> set[int]:
        with self.client(*node_ids, timeout_s=timeout_s) as cluster:
            return {member.id for member in brokers(cluster).nodes.values() if not member.is_fenced}

    def wait_until_whole(self, seconds_max: float = WAIT_S) -> float:
        """Wait until every running broker sees all running brokers unfenced, and every voter follows the leader.

        Returns the seconds waited.
        """
        expected = {node.node_id for node in self.running if node.is_broker}
        voters = {node.node_id for node in self.running if node.is_controller}

        def is_whole() -> bool:
            try:
                return all(self.unfenced(node_id) == expected for node_id in expected) and self._follow(voters)
            except (ClientError, KafkaError):
                return False

        return wait_for(f"brokers {sorted(expected)} and voters {sorted(voters)} together", is_whole, seconds_max)

    def _follow(self, node_ids: set[int]) -> bool:
        """Whether these voters have reached the high watermark at the time of the call."""
        committed = self.quorum_status().high_watermark
        status = self.quorum_status()
        return all(voter.log_end_offset >= committed for voter in status.voters if voter.id in node_ids)

    def start_the_dead(self) -> None:
        for node in self.nodes.values():
            if not node.is_running:
                node.start()
        self.wait_until_whole()

    def logs(self, lines: int = 60) -> str:
        return "\n".join(
            f"--- node {node.node_id}\n" + "\n".join(node.output.splitlines()[-lines:]) for node in self.nodes.values()
        )


def roles_of(
    combined: Iterable[int] = (), controllers: Iterable[int] = (), brokers: Iterable[int] = ()
) -> dict[int, Any]:
    return {
        **dict.fromkeys(combined, COMBINED),
        **dict.fromkeys(controllers, (CONTROLLER,)),
        **dict.fromkeys(brokers, (BROKER,)),
    }


@contextmanager
def real_cluster(directory: Path, roles: Mapping[int, Sequence[str]], **options: Any) -> Iterator[RealCluster]:
    """Run a cluster and remove it afterwards; on failure, print the last log lines of its nodes."""
    cluster = RealCluster(directory, roles, **options)
    try:
        cluster.start()
        yield cluster
    except BaseException:
        print(cluster.logs())
        raise
    finally:
        cluster.remove()


def wait_for(what: str, condition: Callable[[], bool], seconds_max: float = WAIT_S) -> float:
    """Return the seconds until the condition held."""
    began_at = time.monotonic()
    patience = Patience(seconds_max)
    while not condition():
        assert not patience.is_over(), f"timed out after {seconds_max:g} s waiting for {what}"
        time.sleep(WAIT_INTERVAL_S)
    return time.monotonic() - began_at

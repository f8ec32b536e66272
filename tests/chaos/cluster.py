"""The cluster under test: five nodes, three of them also controllers, each in its own network namespace.

Some nodes have a small disk or a disk that can be slowed down. `without` lists the faults that this computer does not
support.
"""

import hashlib
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from odradek.base.errors import KafkaError
from odradek.client.admin import Admin
from odradek.client.errors import ClientError
from odradek.client.reassignments import Reassignments
from odradek.testing.health import find_problem
from tests.chaos.limited_member import MemberWithSlowDisk
from tests.chaos.plan import DISK_FAULTS, NETWORK_FAULTS, REPLICAS, FaultKind
from tests.chaos.small_disk import SmallDisk, find_small_disks
from tests.chaos.transactions.load import COPIES, LEDGER
from tests.chaos.transactions.load import PARTITIONS as PARTITIONS_OF_TRANSACTIONS
from tests.cluster.networks import Network, find_namespaces
from tests.cluster.real_cluster import Member, OdradekMember, RealCluster, roles_of
from tests.components import ComponentMissing
from tests.patience import Patience

TOPIC: Final = "chaos"
TRANSACTION_STATE: Final = "__transaction_state"
PARTITIONS: Final = 6
TOPICS: Final = {TOPIC: PARTITIONS, LEDGER: PARTITIONS_OF_TRANSACTIONS, COPIES: PARTITIONS_OF_TRANSACTIONS}
COORDINATORS: Final = 5
"""Partitions of each internal topic of the coordinators."""
COORDINATED_BY: Final = {"__consumer_offsets": COORDINATORS, TRANSACTION_STATE: COORDINATORS}
RECORD_BYTES_MAX: Final = 20_000
NODES: Final = (1, 2, 3, 4, 5)
NODES_WITH_SMALL_DISKS: Final = (3, 5)
NODES_WITH_SLOW_DISKS: Final = (2, 4)
SESSION_S: Final = 3.0
SETTINGS: Final = {
    "broker.session.timeout.ms": str(int(SESSION_S * 1000)),
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
    "offsets.topic.num.partitions": str(COORDINATORS),
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": str(COORDINATORS),
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "500",
    # For the internal topics of the coordinators.
    "min.insync.replicas": "2",
    # A restarted node must not give up while the cluster recovers: the test starts it only once.
    "initial.broker.registration.timeout.ms": "300000",
}
TOPIC_SETTINGS: Final = {
    "min.insync.replicas": "2",
    # The minimum, so that segments are rolled and recovered after a kill.
    "segment.bytes": str(1024 * 1024),
    "max.message.bytes": str(RECORD_BYTES_MAX),
}
HEALTHY_S_MAX: Final = 60.0
_POLL_S: Final = 0.05


class NotRecovered(Exception):
    """The cluster has not recovered although all faults have ended."""


class ChaosCluster:
    def __init__(self, directory: Path) -> None:
        self.directory: Final = directory
        self.without: Final[set[FaultKind]] = set()
        self.missing: Final[list[str]] = []
        self.network: Network | None = None
        self.small_disks: Final[dict[int, SmallDisk]] = {}
        self._real: RealCluster | None = None

    # Start and removal
    def start(self) -> None:
        self._find_network()
        self._find_disks()
        network = self.network
        self._real = RealCluster(
            self.directory,
            roles_of(combined=NODES[:3], brokers=NODES[3:]),
            properties=SETTINGS,
            new_member=_new_member,
            hosts={number: network.address(number) for number in NODES} if network else None,
            command_prefixes={number: network.command_prefix(number) for number in NODES} if network else None,
        )
        self._real.start()
        with self._real.client() as client:
            for topic, partitions in TOPICS.items():
                Admin(client).create_topic(
                    topic, partitions=partitions, replication_factor=REPLICAS, configs=TOPIC_SETTINGS
                )
        self.wait_until_healthy()

    def remove(self, *, keep_files: bool) -> None:
        if self._real is not None:
            for node in self._real.nodes.values():
                node.kill()
        for disk in self.small_disks.values():
            if keep_files and disk.directory.is_dir():
                shutil.copytree(disk.directory, disk.directory.with_name("data-kept"), dirs_exist_ok=True)
            disk.unmount()
        if self.network is not None:
            self.network.remove()
        if self._real is not None and not keep_files:
            self._real.remove()

    def _find_network(self) -> None:
        try:
            find_namespaces()
        except ComponentMissing as error:
            self.missing.append(f"network partitions: {error}")
            self.without.update(NETWORK_FAULTS)
            return
        self.network = Network(NODES)
        self.network.build()

    def _find_disks(self) -> None:
        try:
            find_small_disks(self.directory)
        except ComponentMissing as error:
            self.missing.append(f"full disks: {error}")
            self.without.update(DISK_FAULTS)
            return
        for number in NODES_WITH_SMALL_DISKS:
            disk = SmallDisk(self.directory / f"node-{number}" / "data")
            disk.mount()
            self.small_disks[number] = disk

    # Queries
    @property
    def nodes(self) -> dict[int, Member]:
        return self.real.nodes

    @property
    def real(self) -> RealCluster:
        assert self._real is not None, "the cluster was not started"
        return self._real

    @property
    def bootstrap(self) -> str:
        return self.real.bootstrap

    @property
    def log_files(self) -> list[Path]:
        return [node.output_file for node in self.nodes.values()]

    def leader(self, topic: str, partition: int) -> int:
        """The leader according to any broker; -1 if there is none."""
        with self.real.client(timeout_s=5.0) as client:
            partitions = client.layout([topic]).topics[topic].partitions
            return partitions[partition % len(partitions)].leader

    def wait_until_healthy(self, seconds_max: float = HEALTHY_S_MAX) -> float:
        """Waits until every node runs, all nodes know each other and all replicas are in sync. Raises NotRecovered."""
        began_at, patience = time.monotonic(), Patience(seconds_max)
        while missing := find_problem({number: node.address for number, node in self.nodes.items()}):
            self.check_all_running()
            if patience.is_over():
                raise NotRecovered(f"{seconds_max:g} s after the last fault: {missing}")
            time.sleep(_POLL_S)
        return time.monotonic() - began_at

    def check_all_running(self) -> None:
        for number, node in self.nodes.items():
            if not node.is_running:
                code = node.process.returncode if node.process is not None else None
                raise NotRecovered(f"node {number} exited with code {code}: see {node.output_file}")

    def wait_for_reassignments(self, seconds_max: float = HEALTHY_S_MAX) -> None:
        patience = Patience(seconds_max)
        while ongoing := self._describe_ongoing_reassignments():
            if patience.is_over():
                raise NotRecovered(f"reassignments not complete after {seconds_max:g} s: {ongoing}")
            time.sleep(_POLL_S)

    def _describe_ongoing_reassignments(self) -> str:
        try:
            with self.reassignments() as reassignments:
                return ", ".join(f"{one.partition} to {list(one.target)}" for one in reassignments.list_ongoing())
        except (ClientError, KafkaError) as error:
            return str(error)

    @contextmanager
    def reassignments(self) -> Iterator[Reassignments]:
        with self.real.client(timeout_s=20.0) as client:
            yield Reassignments(client)

    def copies(self, topic: str) -> dict[int, dict[int, str]]:
        """A digest of all bytes of the log, by partition and node."""
        with self.real.client() as client:
            partitions = client.layout([topic]).topics[topic].partitions
        return {
            one.id: {node: _digest(self.nodes[node], topic, one.id) for node in sorted(one.replicas)}
            for one in partitions
        }


def _new_member(directory: Path) -> Member:
    slow = {f"node-{number}" for number in NODES_WITH_SLOW_DISKS}
    return MemberWithSlowDisk(directory) if directory.name in slow else OdradekMember(directory)


def _digest(node: Member, topic: str, partition: int) -> str:
    digest, size = hashlib.sha256(), 0
    files = node.log_files(topic, partition)
    if not files:
        raise NotRecovered(f"node {node.node_id} has no log of partition {partition} of {topic}")
    for file in files:
        data = file.read_bytes()
        digest.update(data)
        size += len(data)
    return f"{size} bytes, {digest.hexdigest()[:16]}"

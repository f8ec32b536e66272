"""The cluster that is harmed: five nodes, three of them controllers too, each with a network and some with a disk of
their own.

What this machine does not allow is left out, and `without` says which acts that costs.
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
from odradek.testing.health import what_is_missing
from tests.chaos.hampered_member import MemberWithSlowableDisk
from tests.chaos.plan import DISK_ACTS, NETWORK_ACTS, REPLICAS, Act
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
"""Partitions of each of the topics that hold what coordinators know."""
COORDINATED_BY: Final = {"__consumer_offsets": COORDINATORS, TRANSACTION_STATE: COORDINATORS}
RECORD_BYTES_MAX: Final = 20_000
NODES: Final = (1, 2, 3, 4, 5)
NODES_WITH_SMALL_DISKS: Final = (3, 5)
NODES_WITH_SLOWABLE_DISKS: Final = (2, 4)
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
    # Of the topics that hold what coordinators know.
    "min.insync.replicas": "2",
    # Nodes are started again once, and not by somebody who would do it twice.
    "initial.broker.registration.timeout.ms": "300000",
}
TOPIC_SETTINGS: Final = {
    "min.insync.replicas": "2",
    # The smallest there is: segments are rolled, and looked through after a kill.
    "segment.bytes": str(1024 * 1024),
    "max.message.bytes": str(RECORD_BYTES_MAX),
}
HEALTHY_S_MAX: Final = 60.0
_POLL_S: Final = 0.05


class Unhealed(Exception):
    """The cluster is not whole again, though nothing harms it any more."""


class ChaosCluster:
    def __init__(self, directory: Path) -> None:
        self.directory: Final = directory
        self.without: Final[set[Act]] = set()
        self.missing: Final[list[str]] = []
        self.network: Network | None = None
        self.small_disks: Final[dict[int, SmallDisk]] = {}
        self._real: RealCluster | None = None

    # Life

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
            self.missing.append(f"cuts: {error}")
            self.without.update(NETWORK_ACTS)
            return
        self.network = Network(NODES)
        self.network.build()

    def _find_disks(self) -> None:
        try:
            find_small_disks(self.directory)
        except ComponentMissing as error:
            self.missing.append(f"full disks: {error}")
            self.without.update(DISK_ACTS)
            return
        for number in NODES_WITH_SMALL_DISKS:
            disk = SmallDisk(self.directory / f"node-{number}" / "data")
            disk.mount()
            self.small_disks[number] = disk

    # Asking

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
        """As any broker knows it; -1 while there is none."""
        with self.real.client(timeout_s=5.0) as client:
            partitions = client.layout([topic]).topics[topic].partitions
            return partitions[partition % len(partitions)].leader

    def wait_until_healthy(self, seconds_max: float = HEALTHY_S_MAX) -> float:
        """Until every node runs, all know each other, and all replicas are in sync. Raises Unhealed."""
        began_at, patience = time.monotonic(), Patience(seconds_max)
        while missing := what_is_missing({number: node.address for number, node in self.nodes.items()}):
            self.check_that_all_run()
            if patience.is_over():
                raise Unhealed(f"{seconds_max:g} s after the last fault: {missing}")
            time.sleep(_POLL_S)
        return time.monotonic() - began_at

    def check_that_all_run(self) -> None:
        for number, node in self.nodes.items():
            if not node.is_running:
                code = node.process.returncode if node.process is not None else None
                raise Unhealed(f"node {number} has ended by itself, with exit code {code}: see {node.output_file}")

    def wait_until_moved(self, seconds_max: float = HEALTHY_S_MAX) -> None:
        patience = Patience(seconds_max)
        while ongoing := self._ongoing_moves():
            if patience.is_over():
                raise Unhealed(f"after {seconds_max:g} s still under way: {ongoing}")
            time.sleep(_POLL_S)

    def _ongoing_moves(self) -> str:
        try:
            with self.moves() as moves:
                return ", ".join(f"{one.partition} to {list(one.target)}" for one in moves.ongoing())
        except (ClientError, KafkaError) as error:
            return str(error)

    @contextmanager
    def moves(self) -> Iterator[Reassignments]:
        with self.real.client(timeout_s=20.0) as client:
            yield Reassignments(client)

    def copies(self, topic: str) -> dict[int, dict[int, str]]:
        """By partition and node: a digest of all bytes of the log."""
        with self.real.client() as client:
            partitions = client.layout([topic]).topics[topic].partitions
        return {
            one.id: {node: _digest(self.nodes[node], topic, one.id) for node in sorted(one.replicas)}
            for one in partitions
        }


def _new_member(directory: Path) -> Member:
    slowable = {f"node-{number}" for number in NODES_WITH_SLOWABLE_DISKS}
    return MemberWithSlowableDisk(directory) if directory.name in slowable else OdradekMember(directory)


def _digest(node: Member, topic: str, partition: int) -> str:
    digest, size = hashlib.sha256(), 0
    files = node.log_files(topic, partition)
    if not files:
        raise Unhealed(f"node {node.node_id} has nothing of partition {partition} of {topic} on its disk")
    for file in files:
        data = file.read_bytes()
        digest.update(data)
        size += len(data)
    return f"{size} bytes, {digest.hexdigest()[:16]}"

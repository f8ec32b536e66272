"""Injects faults into a real cluster, ends them, and waits until the cluster has recovered."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.errors import ClientError
from tests.chaos.cluster import (
    COORDINATED_BY,
    SESSION_S,
    TOPIC,
    TOPICS,
    TRANSACTION_STATE,
    ChaosCluster,
    NotRecovered,
)
from tests.chaos.limited_member import MemberWithSlowDisk, limit_file_descriptors, restore_file_descriptors
from tests.chaos.plan import Fault, FaultKind
from tests.cluster.networks import Network
from tests.cluster.real_cluster import Member
from tests.patience import Patience

KILLS, PAUSES, NETWORK_PARTITIONS, FULL_DISKS, SLOW_DISKS, LIMIT_FILES, RESTARTS, REASSIGNMENTS, ELECTIONS = KINDS = (
    "kills",
    "pauses",
    "network partitions",
    "full disks",
    "slow disks",
    "file descriptor limits",
    "restarts",
    "reassignments",
    "elections",
)
_BEYOND_SESSION_S: Final = SESSION_S + 1.0
_FULL_S_MAX: Final = 20.0
_SLOW_MS: Final = 100.0


class Nemesis:
    def __init__(self, cluster: ChaosCluster) -> None:
        self._cluster: Final = cluster
        self.tally: Final = Counter(dict.fromkeys(KINDS, 0))
        self.longest_recovery_s = 0.0
        self._injectors: Final[dict[FaultKind, Callable[[Fault], None]]] = {
            FaultKind.KILL: lambda fault: self._kill((fault.node,), fault.seconds),
            FaultKind.KILL_CONTROLLER: lambda fault: self._kill((self._controller(fault),), fault.seconds),
            FaultKind.KILL_LEADER: lambda fault: self._kill((self._leader(TOPIC, fault),), fault.seconds),
            FaultKind.KILL_COORDINATOR: lambda fault: self._kill(
                (self._leader(TRANSACTION_STATE, fault),), fault.seconds
            ),
            FaultKind.KILL_TWO: lambda fault: self._kill((fault.node, fault.other), fault.seconds),
            FaultKind.KILL_ONE_BY_ONE: self._kill_one_by_one,
            FaultKind.KILL_ALL: lambda fault: self._kill(tuple(cluster.nodes), fault.seconds),
            FaultKind.PAUSE: self._pause,
            FaultKind.ISOLATE: lambda fault: self._partition_network(
                fault, lambda network: network.isolate(fault.node)
            ),
            FaultKind.DROP_OUTGOING: lambda fault: self._partition_network(
                fault, lambda network: _drop_outgoing(network, fault.node)
            ),
            FaultKind.DROP_INCOMING: lambda fault: self._partition_network(
                fault, lambda network: _drop_incoming(network, fault.node)
            ),
            FaultKind.DISCONNECT_TWO: lambda fault: self._partition_network(
                fault, lambda network: _disconnect_two(network, fault.node, fault.other)
            ),
            FaultKind.FILL_DISK: self._fill_disk,
            FaultKind.SLOW_DISK: self._slow_disk,
            FaultKind.LIMIT_FILES: self._limit_files,
            FaultKind.ROLL: self._roll,
            FaultKind.REASSIGN: self._reassign,
            FaultKind.REASSIGN_AND_KILL: self._reassign_and_kill,
            FaultKind.ELECT: self._elect,
        }

    def inject(self, fault: Fault) -> None:
        """Raises NotRecovered."""
        self._injectors[fault.kind](fault)
        self._cluster.wait_for_reassignments()
        self.wait_until_healthy()

    def wait_until_healthy(self) -> None:
        self.longest_recovery_s = max(self.longest_recovery_s, self._cluster.wait_until_healthy())

    def inject_without_recovery(self, fault: Fault) -> None:
        """Does not wait for recovery, so that the next fault may hit a node that others depend on."""
        self._injectors[fault.kind](fault)
        self._cluster.check_all_running()

    # Processes

    def _kill(self, numbers: Sequence[int], down_s: float) -> None:
        nodes = [self._cluster.nodes[number] for number in numbers]
        for node in nodes:
            node.kill()
            self.tally[KILLS] += 1
        time.sleep(down_s)
        for node in nodes:
            node.spawn()
        for node in nodes:
            node.wait_until_ready()

    def _kill_one_by_one(self, fault: Fault) -> None:
        for number in sorted(self._cluster.nodes, key=lambda number: (number < fault.node, number)):
            self._kill((number,), 0.0)

    def _controller(self, fault: Fault) -> int:
        try:
            return self._cluster.real.quorum_status(timeout_s=5.0).leader_id
        except (ClientError, KafkaError):
            return fault.node

    def _leader(self, topic: str, fault: Fault) -> int:
        leader = self._cluster.leader(topic, fault.reassignments[0][0])
        return leader if leader in self._cluster.nodes else fault.node

    def _pause(self, fault: Fault) -> None:
        node = self._cluster.nodes[fault.node]
        node.freeze()
        self.tally[PAUSES] += 1
        time.sleep(_BEYOND_SESSION_S + fault.seconds)
        node.wake()

    def _roll(self, fault: Fault) -> None:
        for node in self._cluster.nodes.values():
            node.restart()
            self.tally[RESTARTS] += 1
            self._cluster.wait_until_healthy()

    # Network and disks

    def _partition_network(self, fault: Fault, apply: Callable[[Network], None]) -> None:
        network = self._cluster.network
        assert network is not None, "the plan has no network faults without a network"
        apply(network)
        self.tally[NETWORK_PARTITIONS] += 1
        time.sleep(_BEYOND_SESSION_S + fault.seconds)
        network.heal()

    def _fill_disk(self, fault: Fault) -> None:
        """Fills the node's only disk: the node exits, as Kafka's does, and is restarted once there is space."""
        node, disk = self._cluster.nodes[fault.node], self._cluster.small_disks[fault.node]
        disk.fill()
        self.tally[FULL_DISKS] += 1
        try:
            _wait_for_end(node)
            time.sleep(fault.seconds)
        finally:
            disk.free()
        node.start()

    def _slow_disk(self, fault: Fault) -> None:
        node = self._cluster.nodes[fault.node]
        assert isinstance(node, MemberWithSlowDisk), "the plan slows only disks that support it"
        node.slow_disk(_SLOW_MS)
        self.tally[SLOW_DISKS] += 1
        time.sleep(_BEYOND_SESSION_S + fault.seconds)
        node.slow_disk(0.0)

    def _limit_files(self, fault: Fault) -> None:
        node = self._cluster.nodes[fault.node]
        limits = limit_file_descriptors(node)
        self.tally[LIMIT_FILES] += 1
        time.sleep(_BEYOND_SESSION_S + fault.seconds)
        # If the node exited, the wait for recovery reports it.
        if node.is_running:
            restore_file_descriptors(node, limits)

    # Placement

    def _reassign_and_kill(self, fault: Fault) -> None:
        self._reassign(fault)
        self._kill(fault.reassignments[0][1][:1], fault.seconds)

    def _reassign(self, fault: Fault) -> None:
        """Starts a reassignment; `inject` waits for its end."""
        wanted = {
            TopicPartition(topic, number): replicas
            for topic, partitions in {**TOPICS, **COORDINATED_BY}.items()
            for number, replicas in fault.reassignments
            if number < partitions
        }
        with self._cluster.reassignments() as reassignments:
            errors = reassignments.start(wanted)
        if errors:
            raise NotRecovered(f"reassignments were rejected: {errors}")
        self.tally[REASSIGNMENTS] += len(wanted)

    def _elect(self, fault: Fault) -> None:
        # ELECTION_NOT_NEEDED is not an error here.
        with self._cluster.reassignments() as reassignments, suppress(ClientError, KafkaError):
            elected, _ = reassignments.elect_preferred(None)
            self.tally[ELECTIONS] += len(elected)


def _drop_outgoing(network: Network, number: int) -> None:
    for other in network.numbers:
        if other != number:
            network.block(number, other)


def _drop_incoming(network: Network, number: int) -> None:
    for other in network.numbers:
        if other != number:
            network.block(other, number)


def _disconnect_two(network: Network, number: int, other: int) -> None:
    network.block(number, other)
    network.block(other, number)


def _wait_for_end(node: Member) -> None:
    patience = Patience(_FULL_S_MAX)
    while node.is_running:
        if patience.is_over():
            raise NotRecovered(f"node {node.node_id} still runs with a full disk after {_FULL_S_MAX:g} s")
        time.sleep(0.05)

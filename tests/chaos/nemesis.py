"""Carries out strikes on a real cluster: harms it, ends the harm, and waits until it is whole again."""

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
    Unhealed,
)
from tests.chaos.hampered_member import MemberWithSlowableDisk, give_files, give_no_more_files
from tests.chaos.plan import Act, Strike
from tests.cluster.networks import Network
from tests.cluster.real_cluster import Member
from tests.patience import Patience

KILLS, PAUSES, CUTS, FULL_DISKS, SLOW_DISKS, FEW_FILES, RESTARTS, MOVES, ELECTIONS = KINDS = (
    "kills",
    "pauses",
    "cuts",
    "full disks",
    "slow disks",
    "times without files",
    "restarts",
    "moves",
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
        self._acts: Final[dict[Act, Callable[[Strike], None]]] = {
            Act.KILL: lambda strike: self._kill((strike.node,), strike.seconds),
            Act.KILL_CONTROLLER: lambda strike: self._kill((self._controller(strike),), strike.seconds),
            Act.KILL_LEADER: lambda strike: self._kill((self._leader(TOPIC, strike),), strike.seconds),
            Act.KILL_COORDINATOR: lambda strike: self._kill((self._leader(TRANSACTION_STATE, strike),), strike.seconds),
            Act.KILL_TWO: lambda strike: self._kill((strike.node, strike.other), strike.seconds),
            Act.KILL_ONE_BY_ONE: self._kill_one_by_one,
            Act.KILL_ALL: lambda strike: self._kill(tuple(cluster.nodes), strike.seconds),
            Act.PAUSE: self._pause,
            Act.CUT: lambda strike: self._cut(strike, lambda network: network.isolate(strike.node)),
            Act.MUTE: lambda strike: self._cut(strike, lambda network: _mute(network, strike.node)),
            Act.DEAFEN: lambda strike: self._cut(strike, lambda network: _deafen(network, strike.node)),
            Act.SEVER: lambda strike: self._cut(strike, lambda network: _sever(network, strike.node, strike.other)),
            Act.FILL_DISK: self._fill_disk,
            Act.SLOW_DISK: self._slow_disk,
            Act.FEW_FILES: self._few_files,
            Act.ROLL: self._roll,
            Act.MOVE: self._move,
            Act.MOVE_AND_KILL: self._move_and_kill,
            Act.ELECT: self._elect,
        }

    def carry_out(self, strike: Strike) -> None:
        """Raises Unhealed."""
        self._acts[strike.act](strike)
        self._cluster.wait_until_moved()
        self.wait_until_healthy()

    def wait_until_healthy(self) -> None:
        self.longest_recovery_s = max(self.longest_recovery_s, self._cluster.wait_until_healthy())

    def carry_out_in_a_row(self, strike: Strike) -> None:
        """And does not wait until the cluster is whole: the next one may hit those that the others wait for."""
        self._acts[strike.act](strike)
        self._cluster.check_that_all_run()

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

    def _kill_one_by_one(self, strike: Strike) -> None:
        for number in sorted(self._cluster.nodes, key=lambda number: (number < strike.node, number)):
            self._kill((number,), 0.0)

    def _controller(self, strike: Strike) -> int:
        try:
            return self._cluster.real.quorum_status(timeout_s=5.0).leader_id
        except (ClientError, KafkaError):
            return strike.node

    def _leader(self, topic: str, strike: Strike) -> int:
        leader = self._cluster.leader(topic, strike.moves[0][0])
        return leader if leader in self._cluster.nodes else strike.node

    def _pause(self, strike: Strike) -> None:
        node = self._cluster.nodes[strike.node]
        node.freeze()
        self.tally[PAUSES] += 1
        time.sleep(_BEYOND_SESSION_S + strike.seconds)
        node.wake()

    def _roll(self, strike: Strike) -> None:
        for node in self._cluster.nodes.values():
            node.restart()
            self.tally[RESTARTS] += 1
            self._cluster.wait_until_healthy()

    # Network and disks

    def _cut(self, strike: Strike, cut: Callable[[Network], None]) -> None:
        network = self._cluster.network
        assert network is not None, "the plan cuts nothing where there is no network"
        cut(network)
        self.tally[CUTS] += 1
        time.sleep(_BEYOND_SESSION_S + strike.seconds)
        network.heal()

    def _fill_disk(self, strike: Strike) -> None:
        """Its only disk: the node ends, as Kafka's does, and is started again once there is room."""
        node, disk = self._cluster.nodes[strike.node], self._cluster.small_disks[strike.node]
        disk.fill()
        self.tally[FULL_DISKS] += 1
        try:
            _wait_for_end(node)
            time.sleep(strike.seconds)
        finally:
            disk.free()
        node.start()

    def _slow_disk(self, strike: Strike) -> None:
        node = self._cluster.nodes[strike.node]
        assert isinstance(node, MemberWithSlowableDisk), "the plan slows only disks that can be slowed"
        node.slow_disk(_SLOW_MS)
        self.tally[SLOW_DISKS] += 1
        time.sleep(_BEYOND_SESSION_S + strike.seconds)
        node.slow_disk(0.0)

    def _few_files(self, strike: Strike) -> None:
        node = self._cluster.nodes[strike.node]
        limits = give_no_more_files(node)
        self.tally[FEW_FILES] += 1
        time.sleep(_BEYOND_SESSION_S + strike.seconds)
        # Whoever has lost its life over it is told of by whoever waits until all is well.
        if node.is_running:
            give_files(node, limits)

    # Placement

    def _move_and_kill(self, strike: Strike) -> None:
        self._move(strike)
        self._kill(strike.moves[0][1][:1], strike.seconds)

    def _move(self, strike: Strike) -> None:
        """Begins it; whoever carries out a strike waits for the end."""
        wanted = {
            TopicPartition(topic, number): replicas
            for topic, partitions in {**TOPICS, **COORDINATED_BY}.items()
            for number, replicas in strike.moves
            if number < partitions
        }
        with self._cluster.moves() as moves:
            refusals = moves.begin(wanted)
        if refusals:
            raise Unhealed(f"moves were refused: {refusals}")
        self.tally[MOVES] += len(wanted)

    def _elect(self, strike: Strike) -> None:
        # Whoever leads already refuses to be elected again; that is no trouble.
        with self._cluster.moves() as moves, suppress(ClientError, KafkaError):
            elected, _ = moves.elect_preferred(None)
            self.tally[ELECTIONS] += len(elected)


def _mute(network: Network, number: int) -> None:
    for other in network.numbers:
        if other != number:
            network.cut(number, other)


def _deafen(network: Network, number: int) -> None:
    for other in network.numbers:
        if other != number:
            network.cut(other, number)


def _sever(network: Network, number: int, other: int) -> None:
    network.cut(number, other)
    network.cut(other, number)


def _wait_for_end(node: Member) -> None:
    patience = Patience(_FULL_S_MAX)
    while node.is_running:
        if patience.is_over():
            raise Unhealed(f"node {node.node_id} goes on with a full disk after {_FULL_S_MAX:g} s")
        time.sleep(0.05)

"""What goes wrong in a run, and when: drawn from the seed, bounded so that recovery stays possible, then healed.

A fault is plain data, so that a run can be repeated with some of them left out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from odradek.sim.node_host import NodeHost
from odradek.sim.world import World

# A process that is to die within so many of its next steps dies at the latest after this time.
_FUSE_SECONDS_MAX: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Strikes `node` at a time after the begin of the faults, and lasts for a while where that has a meaning."""

    kind: str
    node: str
    at_seconds: float
    lasts_seconds: float
    # What it means depends on the kind: steps until a crash, a peer, a delay.
    amount: float = 0.0
    peer: str = ""

    def __str__(self) -> str:
        what = f"{self.at_seconds:7.3f} s  {self.kind} {self.node}"
        if self.peer:
            what += f" {self.peer}"
        return f"{what}  for {self.lasts_seconds:.3f} s, {self.amount:.3f}"


class Cluster:
    """What faults can reach."""

    def __init__(self, world: World, nodes: Sequence[NodeHost], clients: Sequence[str]) -> None:
        self.world: Final = world
        self.nodes: Final[Mapping[str, NodeHost]] = {node.name: node for node in nodes}
        self.clients: Final = tuple(clients)

    def heal(self) -> None:
        """Everything that can be mended, is; nodes whose disk has failed are started anew."""
        self.world.network.heal()
        for node in self.nodes.values():
            machine = node.machine
            must_restart = machine.disk_condition.has_failed
            machine.disk_condition.become_well()
            machine.switch_on()
            if must_restart and machine.is_running:
                machine.kill()
            node.start()


def strike(fault: Fault, cluster: Cluster) -> None:
    cluster.world.trace.major("fault", str(fault))
    _STRIKES[fault.kind](fault, cluster)


def schedule(faults: Sequence[Fault], cluster: Cluster) -> None:
    for fault in faults:
        cluster.world.scheduler.call_after(fault.at_seconds, strike, fault, cluster)


# ---- processes


def _die(fault: Fault, cluster: Cluster) -> None:
    """Somewhere in the next steps of the process, which may be in the middle of anything."""
    node, scheduler = cluster.nodes[fault.node], cluster.world.scheduler
    process = node.machine.process
    if process is None or not process.is_alive:
        return
    what, _, where = fault.kind.partition("-at-")

    def end() -> None:
        if process.is_alive:
            if what == "power-loss":
                node.machine.lose_power()
            else:
                node.machine.kill()
            scheduler.call_after(fault.lasts_seconds, come_back)

    def come_back() -> None:
        node.machine.switch_on()
        node.start()

    fuses = {"step": process.turn_fuse, "disk": process.disk_fuse, "sync": process.sync_fuse}
    fuses[where].light(int(fault.amount), end)
    scheduler.call_after(_FUSE_SECONDS_MAX, end)


def _restart(fault: Fault, cluster: Cluster) -> None:
    node = cluster.nodes[fault.node]
    node.stop()
    cluster.world.scheduler.call_after(fault.lasts_seconds, node.start)


def _pause(fault: Fault, cluster: Cluster) -> None:
    cluster.nodes[fault.node].machine.pause(fault.lasts_seconds)


def _jump_clock(fault: Fault, cluster: Cluster) -> None:
    cluster.nodes[fault.node].machine.clock.skew_ms += int(fault.amount * 1000)


# ---- network


def _block(fault: Fault, cluster: Cluster) -> None:
    network = cluster.world.network
    network.block(fault.node, fault.peer)
    cluster.world.scheduler.call_after(fault.lasts_seconds, network.unblock, fault.node, fault.peer)


def _block_back(fault: Fault, cluster: Cluster) -> None:
    network = cluster.world.network
    network.block(fault.peer, fault.node)
    cluster.world.scheduler.call_after(fault.lasts_seconds, network.unblock, fault.peer, fault.node)


def _reset(fault: Fault, cluster: Cluster) -> None:
    cluster.world.network.break_connections(fault.peer, fault.node)


def _delay(fault: Fault, cluster: Cluster) -> None:
    network = cluster.world.network
    for one, other in ((fault.node, fault.peer), (fault.peer, fault.node)):
        link = network.link(one, other)
        link.extra_seconds = fault.amount
        link.loss_probability = min(0.5, fault.amount)
        cluster.world.scheduler.call_after(fault.lasts_seconds, link.become_normal)


# ---- disk


def _slow_disk(fault: Fault, cluster: Cluster) -> None:
    condition = cluster.nodes[fault.node].machine.disk_condition

    def recover() -> None:
        condition.slow_seconds = 0.0

    condition.slow_seconds = fault.amount
    cluster.world.scheduler.call_after(fault.lasts_seconds, recover)


def _fill_disk(fault: Fault, cluster: Cluster) -> None:
    condition = cluster.nodes[fault.node].machine.disk_condition

    def recover() -> None:
        condition.room_bytes = None

    condition.room_bytes = int(fault.amount)
    cluster.world.scheduler.call_after(fault.lasts_seconds, recover)


def _fail_disk(fault: Fault, cluster: Cluster) -> None:
    """Reads, writes or syncs below one of the node's log dirs."""
    node = cluster.nodes[fault.node]
    condition = node.machine.disk_condition
    kind = ("read", "write", "sync", "sync")[int(fault.amount * 4)]
    directories = node.config.log_dirs
    condition.failing[kind] = directories[int(fault.amount * 1000) % len(directories)]

    def recover() -> None:
        condition.failing.pop(kind, None)

    cluster.world.scheduler.call_after(fault.lasts_seconds, recover)


_STRIKES: Final[Mapping[str, Callable[[Fault, Cluster], None]]] = {
    "crash-at-step": _die,
    "crash-at-disk": _die,
    "crash-at-sync": _die,
    "power-loss-at-step": _die,
    "power-loss-at-disk": _die,
    "power-loss-at-sync": _die,
    "restart": _restart,
    "pause": _pause,
    "clock-jump": _jump_clock,
    "block": _block,
    "block-back": _block_back,
    "reset": _reset,
    "delay": _delay,
    "slow-disk": _slow_disk,
    "full-disk": _fill_disk,
    "failing-disk": _fail_disk,
}

# How much of what a fault of each kind brings.
_AMOUNTS: Final[Mapping[str, Callable[[Random], float]]] = {
    "crash-at-step": lambda random: random.randrange(1, 60),
    "crash-at-disk": lambda random: random.randrange(1, 40),
    "crash-at-sync": lambda random: random.randrange(1, 8),
    "power-loss-at-step": lambda random: random.randrange(1, 60),
    "power-loss-at-disk": lambda random: random.randrange(1, 40),
    "power-loss-at-sync": lambda random: random.randrange(1, 8),
    "clock-jump": lambda random: random.uniform(-30, 30),
    "delay": lambda random: random.uniform(0.01, 0.3),
    "slow-disk": lambda random: random.choice((0.001, 0.01, 0.05)),
    "full-disk": lambda random: random.randrange(20_000),
    "failing-disk": lambda random: random.random(),
}
_NETWORK_KINDS: Final = frozenset({"block", "block-back", "reset", "delay"})


def draw(
    random: Random, kinds: Sequence[str], *, nodes: Sequence[str], clients: Sequence[str], seconds: float, count: int
) -> list[Fault]:
    """So many faults within a time, the last of them over when it ends."""
    faults = []
    for _ in range(count):
        kind = random.choice(kinds)
        node = random.choice(nodes)
        at_seconds = random.uniform(0, seconds * 0.85)
        peers = [*(one for one in nodes if one != node), *clients]
        faults.append(
            Fault(
                kind=kind,
                node=node,
                at_seconds=at_seconds,
                lasts_seconds=min(random.expovariate(1 / 0.8), 4.0, seconds - at_seconds),
                amount=_AMOUNTS[kind](random) if kind in _AMOUNTS else 0.0,
                peer=random.choice(peers) if kind in _NETWORK_KINDS else "",
            )
        )
    return sorted(faults, key=lambda fault: fault.at_seconds)

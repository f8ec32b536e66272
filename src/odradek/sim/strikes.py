"""What each kind of fault does to the cluster, and how it passes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from odradek.sim.faults import Fault
from odradek.sim.node_host import NodeHost
from odradek.sim.world import World

# A process that is to die within so many of its next steps dies at the latest after this time.
_FUSE_SECONDS_MAX: Final = 2.0
_TURN_SECONDS: Final = 0.1


class Cluster:
    """What faults can reach."""

    def __init__(self, world: World, nodes: Sequence[NodeHost]) -> None:
        # Whether a node's death now leaves what is promised to survive it.
        self.may_die: Callable[[NodeHost], bool] = lambda node: True
        self.world: Final = world
        self.nodes: Final[Mapping[str, NodeHost]] = {node.name: node for node in nodes}
        self.voters: Final = tuple(node for node in nodes if node.planned.is_voter)

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
        if process.is_alive and cluster.may_die(node):
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


def _restart_in_turn(fault: Fault, cluster: Cluster) -> None:
    """As an upgrade does: one node after the other, the next once the one before it serves again."""
    waiting = list(cluster.nodes.values())
    scheduler = cluster.world.scheduler

    def next_one() -> None:
        if waiting:
            node = waiting.pop()
            node.stop()
            scheduler.call_after(_TURN_SECONDS, start, node)

    def start(node: NodeHost) -> None:
        if node.machine.is_running and not node.is_wanted:
            # It is still on its way out.
            scheduler.call_after(_TURN_SECONDS, start, node)
            return
        node.start()
        scheduler.call_after(_TURN_SECONDS, wait_for, node)

    def wait_for(node: NodeHost) -> None:
        if node.is_ready or not node.machine.is_running:
            next_one()
        else:
            scheduler.call_after(_TURN_SECONDS, wait_for, node)

    next_one()


def _pause(fault: Fault, cluster: Cluster) -> None:
    cluster.nodes[fault.node].machine.pause(fault.lasts_seconds)


def _jump_clock(fault: Fault, cluster: Cluster) -> None:
    cluster.nodes[fault.node].machine.clock.skew_ms += int(fault.amount * 1000)


# ---- network


def _block(fault: Fault, cluster: Cluster) -> None:
    _cut([(fault.node, fault.peer)], fault.lasts_seconds, cluster)


def _block_back(fault: Fault, cluster: Cluster) -> None:
    _cut([(fault.peer, fault.node)], fault.lasts_seconds, cluster)


def _reset(fault: Fault, cluster: Cluster) -> None:
    cluster.world.network.break_connections(fault.peer, fault.node)


def _delay(fault: Fault, cluster: Cluster) -> None:
    network = cluster.world.network
    for one, other in ((fault.node, fault.peer), (fault.peer, fault.node)):
        link = network.link(one, other)
        link.extra_seconds = fault.amount
        link.loss_probability = min(0.5, fault.amount)
        cluster.world.scheduler.call_after(fault.lasts_seconds, link.become_normal)


def _isolate(fault: Fault, cluster: Cluster) -> None:
    """From the other nodes: it neither hears nor is heard, or only one of the two. Clients reach it all the time."""
    links = []
    for other in cluster.nodes:
        if other != fault.node:
            if fault.kind != "deaf":
                links.append((fault.node, other))
            if fault.kind != "mute":
                links.append((other, fault.node))
    _cut(links, fault.lasts_seconds, cluster)


def _bridge(fault: Fault, cluster: Cluster) -> None:
    """The other nodes fall into two camps that hear of each other only through this one."""
    others = [name for name in cluster.nodes if name != fault.node]
    camps = others[::2], others[1::2]
    links = [pair for one in camps[0] for other in camps[1] for pair in ((one, other), (other, one))]
    _cut(links, fault.lasts_seconds, cluster)


def _flap(fault: Fault, cluster: Cluster) -> None:
    """Cut and mended, again and again."""
    links = ((fault.node, fault.peer), (fault.peer, fault.node))
    for turn in range(int(fault.lasts_seconds / fault.amount / 2) + 1):
        cluster.world.scheduler.call_after(turn * 2 * fault.amount, _cut, links, fault.amount, cluster)


def _cut(links: Iterable[tuple[str, str]], seconds: float, cluster: Cluster) -> None:
    network = cluster.world.network
    for source, target in links:
        network.block(source, target)
        cluster.world.scheduler.call_after(seconds, network.unblock, source, target)


# ---- disk


def _shorten_log(fault: Fault, cluster: Cluster) -> None:
    """A voter comes back without the last batches of its metadata log, which it had said to be safe.

    Only where every other voter has them on its disk: consensus can bear no more.
    """
    node = cluster.nodes[fault.node]
    others = [one for one in cluster.voters if one is not node]
    last = node.metadata_disk.last()
    if node not in cluster.voters or not others or last is None:
        return
    if not all(one.metadata_disk.durably_has(last) for one in others):
        return
    node.machine.kill()
    lost = node.metadata_disk.shorten(1 + int(fault.amount * 4))
    cluster.world.trace.major(node.name, f"loses the last {lost} records of its metadata log")
    cluster.world.scheduler.call_after(fault.lasts_seconds, node.start)


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
    directory = directories[int(fault.amount * 1000) % len(directories)]
    if len(cluster.voters) > 1 and kind == "sync" and directory == node.config.metadata_log_dir:
        # What such a disk still shows would not survive a loss of power: no voter may count on it, nor can know.
        kind = "write"
    condition.failing[kind] = directory

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
    "restart-in-turn": _restart_in_turn,
    "pause": _pause,
    "clock-jump": _jump_clock,
    "block": _block,
    "block-back": _block_back,
    "isolated": _isolate,
    "deaf": _isolate,
    "mute": _isolate,
    "bridge": _bridge,
    "flapping": _flap,
    "reset": _reset,
    "delay": _delay,
    "slow-disk": _slow_disk,
    "full-disk": _fill_disk,
    "failing-disk": _fail_disk,
    "shortened-log": _shorten_log,
}

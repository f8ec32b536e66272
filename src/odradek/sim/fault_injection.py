"""Injects faults: what each kind does to the cluster, and how it ends."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final

from odradek.sim.cluster import Cluster
from odradek.sim.faults import LEADER, Fault
from odradek.sim.node_host import NodeHost
from odradek.sim.quorum_history import NO_NODE, Damage, HostCrash
from odradek.sim.replica_faults import REPLICA_FAULTS
from odradek.sim.triggers import APPEND, LEAD, VOTE

# A process that should crash within a number of steps crashes after this time at the latest.
_FUSE_SECONDS_MAX: Final = 2.0
_TURN_SECONDS: Final = 0.1
_FAST_RESTART_SECONDS: Final = 0.02
_STARTING_SECONDS: Final = 0.6
_ELECTION_SECONDS: Final = 1.5
_LATE_SECONDS: Final = 0.05
_GIVING_UP_SECONDS: Final = 3.0
# Long enough to start and to try to register several times.
_CLONED_SECONDS_MIN: Final = 3.0
# Longer than the grace period, so that the brokers are fenced.
_HOST_DOWN_SECONDS_MIN: Final = 1.5


def inject(fault: Fault, cluster: Cluster) -> None:
    if fault.node == LEADER:
        fault = _aim(fault, cluster)
    cluster.world.trace.major("fault", str(fault))
    _INJECTORS[fault.kind](fault, cluster)


def _aim(fault: Fault, cluster: Cluster) -> Fault:
    """Aims at the leader, or, if the fault starts an election, at a voter that may win it."""
    leader = cluster.leader()
    others = [node.name for node in cluster.voters if node is not leader]
    if fault.kind.endswith((f"-at-{VOTE}", f"-at-{LEAD}")) and others:
        return replace(fault, node=others[0])
    peer = others[0] if fault.peer == leader.name and others else fault.peer
    return replace(fault, node=leader.name, peer=peer)


def schedule(faults: Sequence[Fault], cluster: Cluster) -> None:
    for fault in faults:
        cluster.world.scheduler.call_after(fault.at_seconds, inject, fault, cluster)


# ---- processes


def _crash(fault: Fault, cluster: Cluster) -> None:
    """Crashes the process, or its computer, at one of its next steps."""
    node, scheduler = cluster.nodes[fault.node], cluster.world.scheduler
    process = node.computer.process
    if process is None or not process.is_alive:
        return
    what, _, where = fault.kind.partition("-at-")

    def end() -> None:
        if process.is_alive and cluster.may_crash(node):
            if what == "power-loss":
                node.computer.lose_power()
            else:
                node.computer.kill()
            scheduler.call_after(fault.lasts_seconds, come_back)

    def come_back() -> None:
        node.computer.switch_on()
        node.start()

    def end_soon() -> None:
        scheduler.call_after(0.0, end)

    countdowns = {"step": process.step_countdown, "disk": process.disk_countdown, "sync": process.sync_countdown}
    if where in countdowns:
        countdowns[where].start(int(fault.amount), end)
        scheduler.call_after(_FUSE_SECONDS_MAX, end)
    else:
        # Requests it has already sent arrive; later ones are never sent.
        cluster.triggers.on_next(where, node.name, end_soon if where == VOTE else end)
        if where != APPEND:
            _call_election(fault, cluster)


def _call_election(fault: Fault, cluster: Cluster) -> None:
    """Crashes the leader and delays the links between the other voters, so that several become candidates in one
    epoch."""
    leader = cluster.leader()
    if leader.name == fault.node:
        return
    leader.computer.kill()
    cluster.world.scheduler.call_after(_ELECTION_SECONDS, leader.start)
    for one, other in combinations((node.name for node in cluster.voters if node is not leader), 2):
        _delay(replace(fault, node=one, peer=other, amount=_LATE_SECONDS, lasts_seconds=_ELECTION_SECONDS), cluster)


def _restart(fault: Fault, cluster: Cluster) -> None:
    node = cluster.nodes[fault.node]
    node.stop()
    cluster.world.scheduler.call_after(fault.lasts_seconds, node.start)


def _restart_in_turn(fault: Fault, cluster: Cluster) -> None:
    """A rolling restart: each node restarts once the previous one is ready."""
    waiting = list(cluster.nodes.values())
    scheduler = cluster.world.scheduler

    def next_one() -> None:
        if waiting:
            node = waiting.pop()
            node.stop()
            scheduler.call_after(_TURN_SECONDS, start, node)

    def start(node: NodeHost) -> None:
        if node.computer.is_running and not node.is_wanted:
            # It is still shutting down.
            scheduler.call_after(_TURN_SECONDS, start, node)
            return
        node.start()
        scheduler.call_after(_TURN_SECONDS, wait_for, node)

    def wait_for(node: NodeHost) -> None:
        if node.is_ready or not node.computer.is_running:
            next_one()
        else:
            scheduler.call_after(_TURN_SECONDS, wait_for, node)

    next_one()


def _pause(fault: Fault, cluster: Cluster) -> None:
    cluster.record_disturbance(fault.node, fault.node, fault.lasts_seconds)
    cluster.nodes[fault.node].computer.pause(fault.lasts_seconds)


def _pause_and_reset(fault: Fault, cluster: Cluster) -> None:
    """Pauses the process and resets its connections: its port still accepts new ones."""
    _pause(fault, cluster)
    _break_connections(fault.node, cluster)


def _clone(fault: Fault, cluster: Cluster) -> None:
    """A copy of a running broker's disk starts on another computer."""
    brokers = [node for node in cluster.nodes.values() if node.planned.is_broker and not node.planned.is_voter]
    if brokers:
        original = brokers[int(fault.amount * len(brokers))]
        advertises_original = int(fault.amount * 1000) % 2 == 0
        seconds = max(fault.lasts_seconds, _CLONED_SECONDS_MIN)
        cluster.clones.start(original, seconds, advertises_original=advertises_original)


def _crash_host(fault: Fault, cluster: Cluster) -> None:
    """Kills all brokers of a host at once, and starts them again together."""
    hosts = list(dict.fromkeys(node.planned.host for node in cluster.nodes.values() if not node.planned.is_voter))
    host = hosts[int(fault.amount * len(hosts))]
    nodes = [node for node in cluster.nodes.values() if node.planned.host == host]
    if not all(node.is_ready for node in nodes):
        return
    now, seconds = cluster.world.now, max(fault.lasts_seconds, _HOST_DOWN_SECONDS_MIN)
    names = tuple(node.name for node in nodes)
    cluster.history.host_crashes.append(HostCrash(nodes=names, seconds=now, restarted_seconds=now + seconds))
    for node in nodes:
        node.computer.kill()
        cluster.world.scheduler.call_after(seconds, node.start)


def _jump_clock(fault: Fault, cluster: Cluster) -> None:
    cluster.nodes[fault.node].computer.clock.skew_ms += int(fault.amount * 1000)


# ---- network


def _block(fault: Fault, cluster: Cluster) -> None:
    cluster.block_links([(fault.node, fault.peer)], fault.lasts_seconds)


def _block_back(fault: Fault, cluster: Cluster) -> None:
    cluster.block_links([(fault.peer, fault.node)], fault.lasts_seconds)


def _reset(fault: Fault, cluster: Cluster) -> None:
    cluster.record_disturbance(fault.node, fault.peer, 0.0)
    cluster.world.network.break_connections(fault.peer, fault.node)


def _break_connections(node: str, cluster: Cluster) -> None:
    for other in cluster.nodes:
        if other != node:
            cluster.record_disturbance(node, other, 0.0)
            cluster.world.network.break_connections(node, other)
            cluster.world.network.break_connections(other, node)


def _delay(fault: Fault, cluster: Cluster) -> None:
    network = cluster.world.network
    cluster.record_disturbance(fault.node, fault.peer, fault.lasts_seconds)
    for one, other in ((fault.node, fault.peer), (fault.peer, fault.node)):
        link = network.link(one, other)
        link.extra_seconds = fault.amount
        link.loss_probability = min(0.5, fault.amount)
        cluster.world.scheduler.call_after(fault.lasts_seconds, link.become_normal)


def _isolate(fault: Fault, cluster: Cluster) -> None:
    """Blocks all links to the other nodes, or only one direction. Clients still reach the node."""
    links = []
    for other in cluster.nodes:
        if other != fault.node:
            if fault.kind != "inbound-blocked":
                links.append((fault.node, other))
            if fault.kind != "outbound-blocked":
                links.append((other, fault.node))
    cluster.block_links(links, fault.lasts_seconds)


def _isolate_at_append(fault: Fault, cluster: Cluster) -> None:
    """Isolates the node after an append that no other node receives."""
    cluster.triggers.on_next(APPEND, fault.node, lambda: _isolate(fault, cluster))


def _isolate_and_reset(fault: Fault, cluster: Cluster) -> None:
    """Isolates the node and resets its connections: new ones get no response."""
    _isolate(fault, cluster)
    _break_connections(fault.node, cluster)


def _stall(fault: Fault, cluster: Cluster) -> None:
    """Delays the current connections; requests on new connections overtake them."""
    network = cluster.world.network
    for one, other in ((fault.node, fault.peer), (fault.peer, fault.node)):
        cluster.record_disturbance(one, other, fault.lasts_seconds)
        network.stall(one, other, fault.lasts_seconds)


def _stall_and_restart(fault: Fault, cluster: Cluster) -> None:
    """Requests of a crashed process arrive after those of its restarted successor."""
    node, scheduler = cluster.nodes[fault.node], cluster.world.scheduler
    # Its requests have not timed out yet.
    dies_after = 0.1 + 0.4 * fault.amount
    stall_seconds = max(fault.lasts_seconds, dies_after + _STARTING_SECONDS)
    for other in cluster.nodes:
        if other != fault.node:
            cluster.record_disturbance(fault.node, other, stall_seconds)
            cluster.world.network.stall(fault.node, other, stall_seconds)
    scheduler.call_after(dies_after, node.computer.kill)
    scheduler.call_after(dies_after + _FAST_RESTART_SECONDS, node.start)


def _isolate_from_leader(fault: Fault, cluster: Cluster) -> None:
    """Blocks only the links between the node and the leader."""
    leader = cluster.leader().name
    if leader != fault.node:
        cluster.block_links([(fault.node, leader), (leader, fault.node)], fault.lasts_seconds)


def _bridge(fault: Fault, cluster: Cluster) -> None:
    """Splits the other nodes into two groups that are connected only through this node."""
    others = [name for name in cluster.nodes if name != fault.node]
    groups = others[::2], others[1::2]
    links = [pair for one in groups[0] for other in groups[1] for pair in ((one, other), (other, one))]
    cluster.block_links(links, fault.lasts_seconds)


def _flap(fault: Fault, cluster: Cluster) -> None:
    """Blocks and unblocks the links repeatedly."""
    links = ((fault.node, fault.peer), (fault.peer, fault.node))
    cluster.record_disturbance(fault.node, fault.peer, fault.lasts_seconds + 2 * fault.amount)
    for turn in range(int(fault.lasts_seconds / fault.amount / 2) + 1):
        cluster.world.scheduler.call_after(turn * 2 * fault.amount, cluster.block_links, links, fault.amount)


# ---- disk


def _damage_log(fault: Fault, cluster: Cluster) -> None:
    """A voter restarts with a damaged metadata log: the last batches are truncated, or have a flipped bit.

    Only if every other voter has them on disk: consensus tolerates no more.
    """
    node = cluster.nodes[fault.node]
    others = [one for one in cluster.voters if one is not node]
    last = node.metadata_disk.last()
    if node not in cluster.voters or not others or last is None:
        return
    if not (node.is_wanted and node.computer.is_running):
        # After a clean shutdown the next start checks no batches; neither does Kafka's.
        return
    if not all(one.metadata_disk.durably_has(last) for one in others):
        return
    state = node.metadata_disk.durable_state(0.0)
    if state is None or state.leader_id == NO_NODE:
        # During an election, votes may have been granted because of records that it will lose.
        return
    node.computer.kill()
    cluster.history.damages.append(Damage(node=node.name, seconds=cluster.world.now))
    batches = 1 + int(fault.amount * 4)
    if fault.kind == "shortened-log":
        lost = node.metadata_disk.shorten(batches)
        cluster.world.trace.major(node.name, f"loses the last {lost} records of its metadata log")
    elif node.metadata_disk.flip_bit(batches, fault.amount):
        cluster.world.trace.major(node.name, f"has a bit flipped {batches} batches before the end of its metadata log")
    cluster.world.scheduler.call_after(fault.lasts_seconds, node.start)


def _slow_disk(fault: Fault, cluster: Cluster) -> None:
    condition = cluster.nodes[fault.node].computer.disk_condition

    def recover() -> None:
        condition.slow_seconds = 0.0

    cluster.record_disturbance(fault.node, fault.node, fault.lasts_seconds)
    condition.slow_seconds = fault.amount
    cluster.world.scheduler.call_after(fault.lasts_seconds, recover)


def _fill_disk(fault: Fault, cluster: Cluster) -> None:
    condition = cluster.nodes[fault.node].computer.disk_condition

    def recover() -> None:
        condition.room_bytes = None

    cluster.record_disturbance(fault.node, fault.node, fault.lasts_seconds + _GIVING_UP_SECONDS)
    condition.room_bytes = int(fault.amount)
    cluster.world.scheduler.call_after(fault.lasts_seconds, recover)


def _fail_disk(fault: Fault, cluster: Cluster) -> None:
    """Reads, writes or syncs below one of the node's log dirs."""
    node = cluster.nodes[fault.node]
    condition = node.computer.disk_condition
    kind = ("read", "write", "sync", "sync")[int(fault.amount * 4)]
    directories = node.config.log_dirs
    directory = directories[int(fault.amount * 1000) % len(directories)]
    if len(cluster.voters) > 1 and kind == "sync" and directory == node.config.metadata_log_dir:
        # After a failed fsync the page cache shows records that a power loss removes; no voter can detect that.
        kind = "write"
    # A node that cannot use its metadata log dir shuts down and does not lead meanwhile.
    cluster.record_disturbance(fault.node, fault.node, fault.lasts_seconds + _GIVING_UP_SECONDS)
    condition.failing[kind] = directory

    def recover() -> None:
        condition.failing.pop(kind, None)

    cluster.world.scheduler.call_after(fault.lasts_seconds, recover)


_INJECTORS: Final[Mapping[str, Callable[[Fault, Cluster], None]]] = {
    "crash-at-step": _crash,
    "crash-at-disk": _crash,
    "crash-at-sync": _crash,
    "power-loss-at-step": _crash,
    "power-loss-at-disk": _crash,
    "power-loss-at-sync": _crash,
    "crash-at-vote": _crash,
    "crash-at-append": _crash,
    "crash-at-lead": _crash,
    "power-loss-at-vote": _crash,
    "power-loss-at-lead": _crash,
    "power-loss-at-append": _crash,
    "restart": _restart,
    "restart-in-turn": _restart_in_turn,
    "pause": _pause,
    "paused-and-reset": _pause_and_reset,
    "clock-jump": _jump_clock,
    "cloned": _clone,
    "host-crash": _crash_host,
    "block": _block,
    "block-back": _block_back,
    "isolated": _isolate,
    "inbound-blocked": _isolate,
    "outbound-blocked": _isolate,
    "isolated-at-append": _isolate_at_append,
    "isolated-and-reset": _isolate_and_reset,
    "stalled": _stall,
    "stalled-restart": _stall_and_restart,
    "bridge": _bridge,
    "leader-unreachable": _isolate_from_leader,
    "flapping": _flap,
    "reset": _reset,
    "delay": _delay,
    "slow-disk": _slow_disk,
    "full-disk": _fill_disk,
    "failing-disk": _fail_disk,
    "shortened-log": _damage_log,
    "flipped-bit": _damage_log,
    **REPLICA_FAULTS,
}

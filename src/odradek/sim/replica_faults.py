"""Faults that depend on the leaders and replicas of partitions; `fault_injection` has all others."""

from collections.abc import Callable, Mapping
from typing import Final

from odradek.sim.cluster import Cluster
from odradek.sim.faults import Fault
from odradek.sim.triggers import SHRINK

# Long enough for the leader to be fenced and for its successor to append records.
_DEPOSED_SECONDS_MIN: Final = 3.0
_LEFT_BEHIND_SECONDS: Final = 2.0
_OUT_OF_SYNC_SECONDS: Final = 2.0
_ISOLATED_SECONDS: Final = 0.05
_LATE_SECONDS: Final = 0.2
_LATE_FOR_SECONDS: Final = 2.0


def _depose(fault: Fault, cluster: Cluster) -> None:
    """Isolates a leader from the other nodes while clients still write to it: its log and its successor's diverge."""
    leaders = cluster.replicas.leaders() if cluster.replicas is not None else []
    if leaders:
        leader = leaders[int(fault.amount * len(leaders))].leader
        others = [name for name in cluster.nodes if name != leader]
        links = [pair for other in others for pair in ((leader, other), (other, leader))]
        cluster.block_links(links, max(fault.lasts_seconds, _DEPOSED_SECONDS_MIN))


def _depose_with_follower(fault: Fault, cluster: Cluster) -> None:
    """Isolates a leader together with one of its followers, and the follower for longer: when the leader truncates its
    log, it may still be sending to the follower, which knows no other leader."""
    leaders = cluster.replicas.leaders() if cluster.replicas is not None else []
    followed = [one for one in leaders if one.in_sync]
    if not followed:
        return
    _, leader, in_sync = followed[int(fault.amount * len(followed))]
    follower = in_sync[int(fault.amount * 1000) % len(in_sync)]
    seconds = max(fault.lasts_seconds, _DEPOSED_SECONDS_MIN)
    others = [name for name in cluster.nodes if name not in (leader, follower)]
    for node, lasts_seconds in ((leader, seconds), (follower, seconds + _LEFT_BEHIND_SECONDS)):
        cluster.block_links([pair for other in others for pair in ((node, other), (other, node))], lasts_seconds)
    cluster.let_crawl(follower, seconds + _LEFT_BEHIND_SECONDS)


def _crash_after_shrink(fault: Fault, cluster: Cluster) -> None:
    """Removes a follower from the ISR, then crashes the leader before other nodes receive its new high watermark. Its
    successor does not know what is committed, and the follower returns over a slow link."""
    followed = [one for one in cluster.replicas.leaders() if one.in_sync] if cluster.replicas is not None else []
    if not followed:
        return
    _, leader, in_sync = followed[int(fault.amount * len(followed))]
    follower = in_sync[int(fault.amount * 1000) % len(in_sync)]
    scheduler, network = cluster.world.scheduler, cluster.world.network
    others = [name for name in cluster.nodes if name not in (leader, follower)]
    cluster.block_links([(leader, follower), (follower, leader)], _OUT_OF_SYNC_SECONDS)

    def isolate_leader() -> None:
        cluster.block_links([(leader, other) for other in others], _ISOLATED_SECONDS)
        scheduler.call_after(_ISOLATED_SECONDS, crash)

    def crash() -> None:
        node = cluster.nodes[leader]
        if not (node.computer.is_running and cluster.may_crash(node)):
            return
        node.computer.kill()
        scheduler.call_after(max(fault.lasts_seconds, _LATE_FOR_SECONDS), node.start)
        for other in others:
            cluster.record_disturbance(follower, other, _LATE_FOR_SECONDS)
            for link in (network.link(follower, other), network.link(other, follower)):
                link.extra_seconds = _LATE_SECONDS
                scheduler.call_after(_LATE_FOR_SECONDS, link.become_normal)

    cluster.triggers.on_next(SHRINK, leader, isolate_leader)


def _flip_record(fault: Fault, cluster: Cluster) -> None:
    """Crashes a broker and flips a bit in its active segments.

    Only if another live replica has all records: recovery truncates the log, and the broker fetches the rest again.
    Like Kafka, the next start does not check closed segments: there a flipped bit is found when it is read.
    """
    node, replicas = cluster.nodes[fault.node], cluster.replicas
    if replicas is None or not (node.is_wanted and node.computer.is_running) or not replicas.may_crash(node):
        return
    node.computer.kill()
    for what in replicas.flip_bit(node, fault.amount):
        cluster.world.trace.major(node.name, what)
    cluster.world.scheduler.call_after(fault.lasts_seconds, node.start)


REPLICA_FAULTS: Final[Mapping[str, Callable[[Fault, Cluster], None]]] = {
    "deposed": _depose,
    "deposed-with-follower": _depose_with_follower,
    "crash-after-shrink": _crash_after_shrink,
    "flipped-record": _flip_record,
}

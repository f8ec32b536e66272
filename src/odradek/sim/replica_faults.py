"""Faults that know who leads a partition, and what its copies hold: see `strikes` for all others."""

from collections.abc import Callable, Mapping
from typing import Final

from odradek.sim.cluster import Cluster
from odradek.sim.faults import Fault
from odradek.sim.triggers import SHRINK

# Long enough for whoever is not heard to be fenced, for another one to lead, and for that one to write more.
_DEPOSED_SECONDS_MIN: Final = 3.0
_OUT_OF_SYNC_SECONDS: Final = 2.0
_LAST_WORDS_SECONDS: Final = 0.05
_LATE_SECONDS: Final = 0.2
_LATE_FOR_SECONDS: Final = 2.0


def _depose(fault: Fault, cluster: Cluster) -> None:
    """A leader is not heard by the other nodes, and clients still write to it: its log and its successor's part."""
    leaders = cluster.replicas.leaders() if cluster.replicas is not None else []
    if leaders:
        leader = leaders[int(fault.amount * len(leaders))].leader
        others = [name for name in cluster.nodes if name != leader]
        links = [pair for other in others for pair in ((leader, other), (other, leader))]
        cluster.block_links(links, max(fault.lasts_seconds, _DEPOSED_SECONDS_MIN))


def _desert(fault: Fault, cluster: Cluster) -> None:
    """A follower falls behind and is no longer waited for; what is acknowledged then, the leader tells to nobody else
    before it dies. Its successor does not know that it is committed, and the follower comes back, slowly."""
    followed = [one for one in cluster.replicas.leaders() if one.in_sync] if cluster.replicas is not None else []
    if not followed:
        return
    _, leader, in_sync = followed[int(fault.amount * len(followed))]
    follower = in_sync[int(fault.amount * 1000) % len(in_sync)]
    scheduler, network = cluster.world.scheduler, cluster.world.network
    others = [name for name in cluster.nodes if name not in (leader, follower)]
    cluster.block_links([(leader, follower), (follower, leader)], _OUT_OF_SYNC_SECONDS)

    def left_alone() -> None:
        cluster.block_links([(leader, other) for other in others], _LAST_WORDS_SECONDS)
        scheduler.call_after(_LAST_WORDS_SECONDS, die)

    def die() -> None:
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

    cluster.triggers.on_next(SHRINK, leader, left_alone)


def _flip_record(fault: Fault, cluster: Cluster) -> None:
    """A broker dies, and of what it had not closed yet a bit is another when it comes back.

    Only where somebody else who lives has everything: recovery cuts the log there, and what is gone has to be fetched.
    What was closed is not looked at again by the next start, nor is it by Kafka's: a bit that is lost there is for
    whoever reads it to find.
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
    "deserted": _desert,
    "flipped-record": _flip_record,
}

"""The nodes of a run as fault injection sees them: which nodes exist, which may crash, and how to repair them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from odradek.sim.clones import Clones
from odradek.sim.layout import CLIENT_PORT
from odradek.sim.node_host import NodeHost
from odradek.sim.quorum_history import NO_NODE, Disturbance, QuorumHistory
from odradek.sim.replica_recorder import ReplicaRecorder
from odradek.sim.triggers import Triggers
from odradek.sim.world import World


class Cluster:
    """The targets of fault injection."""

    def __init__(
        self,
        world: World,
        nodes: Sequence[NodeHost],
        history: QuorumHistory | None = None,
        triggers: Triggers | None = None,
    ) -> None:
        """`history` records the disturbances, because some rules hold only without them."""
        # Whether the scenario's guarantee survives a crash of the node now.
        self.may_crash: Callable[[NodeHost], bool] = lambda node: True
        self.world: Final = world
        self.nodes: Final[Mapping[str, NodeHost]] = {node.name: node for node in nodes}
        self.voters: Final = tuple(node for node in nodes if node.planned.is_voter)
        self.history: Final = history or QuorumHistory()
        self.triggers: Final = triggers or Triggers()
        self.clones: Final = Clones(world)
        # Only with replicated partitions.
        self.replicas: ReplicaRecorder | None = None

    def leader(self) -> NodeHost:
        """The leader according to the voters' disks, or the first voter if there is none."""
        states = [state for node in self.voters if (state := node.metadata_disk.durable_state(0.0)) is not None]
        leader_id = max(((state.epoch, state.leader_id) for state in states), default=(0, NO_NODE))[1]
        return next((node for node in self.voters if node.planned.node_id == leader_id), self.voters[0])

    def record_disturbance(self, one: str, other: str, seconds: float) -> None:
        now = self.world.now
        self.history.disturbances.append(Disturbance(one=one, other=other, began=now, ended=now + seconds))

    def block_links(self, links: Iterable[tuple[str, str]], seconds: float) -> None:
        """Blocks each link, from one host to another, for a while."""
        network = self.world.network
        for source, target in links:
            self.record_disturbance(source, target, seconds)
            network.block(source, target)
            self.world.scheduler.call_after(seconds, network.unblock, source, target)

    def let_crawl(self, name: str, seconds: float) -> None:
        """Lets a slow reader read even more slowly for a while."""
        reader = self.world.network.slow_reader(name, CLIENT_PORT)
        if reader is not None:
            reader.is_crawling = True

            def recover() -> None:
                reader.is_crawling = False

            self.world.scheduler.call_after(seconds, recover)

    def reject_probes(self) -> None:
        """From now on, a firewall rejects the controllers' connections to the last node's port for brokers."""
        *others, last = self.nodes.values()
        for node in others:
            if node.planned.is_voter:
                self.world.network.reject(node.name, last.name, last.planned.client_port)

    def heal(self) -> None:
        """Ends all faults, and restarts nodes whose disk has failed."""
        self.clones.end()
        self.world.network.heal()
        for node in self.nodes.values():
            computer = node.computer
            must_restart = computer.disk_condition.has_failed
            computer.disk_condition.reset()
            computer.switch_on()
            if must_restart and computer.is_running:
                computer.kill()
            node.start()

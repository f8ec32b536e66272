"""The plan of faults, which depends only on the seed.

Pure. Recovery always stays possible: there is one fault at a time, and each affects one broker or kills several, which
loses nothing that the processes have written.
"""

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final


class FaultKind(StrEnum):
    KILL = "kill"
    """kill -9 and restart."""
    KILL_CONTROLLER = "kill the controller"
    KILL_LEADER = "kill a leader"
    KILL_COORDINATOR = "kill a coordinator"
    """Of transactions."""
    KILL_TWO = "kill two"
    """At the same time."""
    KILL_ONE_BY_ONE = "kill one by one"
    """Every node in turn, without waiting until the previous one has caught up."""
    KILL_ALL = "kill all"
    PAUSE = "pause"
    """SIGSTOP until its session has expired."""
    ISOLATE = "isolate"
    """Drops all packets between a node and the other nodes."""
    DROP_OUTGOING = "drop outgoing"
    """Drops all packets from a node to the other nodes."""
    DROP_INCOMING = "drop incoming"
    """Drops all packets from the other nodes to a node."""
    DISCONNECT_TWO = "disconnect two"
    """Drops all packets between two nodes, which the other nodes still reach."""
    FILL_DISK = "fill a disk"
    SLOW_DISK = "slow a disk"
    """Every write takes a tenth of a second longer."""
    LIMIT_FILES = "limit file descriptors"
    """The node can hardly open any file or accept any connection."""
    ROLL = "rolling restart"
    """SIGTERM and restart, one node after the other."""
    REASSIGN = "reassign"
    """Reassigns two partitions of each topic to other brokers, including coordinator partitions."""
    REASSIGN_AND_KILL = "reassign and kill"
    """Kills one of the new replicas during the reassignment."""
    ELECT = "elect"
    """Preferred leader election for every partition."""


NETWORK_FAULTS: Final = frozenset(
    {FaultKind.ISOLATE, FaultKind.DROP_OUTGOING, FaultKind.DROP_INCOMING, FaultKind.DISCONNECT_TWO}
)
DISK_FAULTS: Final = frozenset({FaultKind.FILL_DISK})
_REASSIGNED_PARTITIONS: Final = 2
REPLICAS: Final = 3


@dataclass(frozen=True, slots=True)
class Fault:
    kind: FaultKind
    node: int
    """The affected node, for kinds that do not determine it."""
    other: int
    """The second affected node, for kinds that need two."""
    seconds: float
    """Duration of the fault beyond what its kind needs."""
    reassignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """Partition and new replicas."""

    def __str__(self) -> str:
        text = f"{self.kind} {self._targets()}".rstrip()
        return text + (f" for {self.seconds:.1f} s more" if self.seconds else "")

    def _targets(self) -> str:
        match self.kind:
            case FaultKind.DISCONNECT_TWO | FaultKind.KILL_TWO:
                return f"{self.node} and {self.other}"
            case FaultKind.REASSIGN | FaultKind.REASSIGN_AND_KILL:
                return ", ".join(f"{partition} to {list(replicas)}" for partition, replicas in self.reassignments)
            case (
                FaultKind.KILL_ALL
                | FaultKind.KILL_ONE_BY_ONE
                | FaultKind.KILL_CONTROLLER
                | FaultKind.ROLL
                | FaultKind.ELECT
            ):
                return ""
            case FaultKind.KILL_LEADER | FaultKind.KILL_COORDINATOR:
                return f"of partition {self.reassignments[0][0]}"
            case _:
                return str(self.node)


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    brokers: Sequence[int]
    partitions: int
    small_disks: Sequence[int] = ()
    """The brokers whose disk can be filled."""
    slow_disks: Sequence[int] = ()
    """The brokers whose disk can be slowed."""
    without: Collection[FaultKind] = ()

    def faults(self) -> Iterator[Fault]:
        """Infinite: each round contains every kind once, in a new order."""
        rng = random.Random(self.seed)
        excluded = set(self.without)
        excluded |= DISK_FAULTS if not self.small_disks else set()
        excluded |= {FaultKind.SLOW_DISK} if not self.slow_disks else set()
        kinds = [kind for kind in FaultKind if kind not in excluded]
        while True:
            yield from [self._fault(rng, kind) for kind in rng.sample(kinds, len(kinds))]

    def kills(self) -> Iterator[Fault]:
        """Infinite: only kills, mostly of one node at a time."""
        rng = random.Random(self.seed)
        while True:
            (kind,) = rng.choices((FaultKind.KILL, FaultKind.KILL_TWO, FaultKind.KILL_ALL), (12, 2, 1))
            node, other = rng.sample(self.brokers, 2)
            yield Fault(kind, node, other, round(rng.uniform(0, 0.6), 2))

    def first(self, count: int) -> list[Fault]:
        return list(islice(self.faults(), count))

    def _fault(self, rng: random.Random, kind: FaultKind) -> Fault:
        node, other = rng.sample(self.brokers, 2)
        if kind is FaultKind.FILL_DISK:
            node = rng.choice(self.small_disks)
        elif kind is FaultKind.SLOW_DISK:
            node = rng.choice(self.slow_disks)
        chosen = rng.sample(range(self.partitions), min(_REASSIGNED_PARTITIONS, self.partitions))
        reassignments = tuple((partition, tuple(rng.sample(self.brokers, REPLICAS))) for partition in chosen)
        return Fault(kind, node, other, round(rng.uniform(0, 2.0), 1), reassignments)

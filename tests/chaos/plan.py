"""What the nemesis will do, decided by a seed alone: the same seed, the same strikes in the same order.

Pure. Damage is capped so that recovery stays possible: one strike at a time, each harming one broker, or killing two or
all at once, which loses nothing that processes have written.
"""

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final


class Act(StrEnum):
    KILL = "kill"
    """kill -9, and a new start."""
    KILL_CONTROLLER = "kill the controller"
    KILL_LEADER = "kill a leader"
    KILL_COORDINATOR = "kill a coordinator"
    """Of transactions."""
    KILL_TWO = "kill two"
    """At once."""
    KILL_ONE_BY_ONE = "kill one by one"
    """Every node, and none waits until the one before it has caught up."""
    KILL_ALL = "kill all"
    PAUSE = "pause"
    """SIGSTOP until its session is over."""
    CUT = "cut off"
    """Nothing between it and the other nodes gets through."""
    MUTE = "mute"
    """It hears the others, and they do not hear it."""
    DEAFEN = "deafen"
    """They hear it, and it hears none of them."""
    SEVER = "sever"
    """Nothing gets through between two nodes, while all others hear both."""
    FILL_DISK = "fill a disk"
    SLOW_DISK = "slow a disk"
    """Every write takes a tenth of a second longer."""
    FEW_FILES = "take its files"
    """It gets hardly any file descriptor more: nobody new is let in, and what is closed stays so."""
    ROLL = "rolling restart"
    """SIGTERM and a new start, of one after the other."""
    MOVE = "move"
    """Replicas of two partitions of each topic go to other brokers, coordinators with them."""
    MOVE_AND_KILL = "move and kill"
    """And one of those that get them is killed meanwhile."""
    ELECT = "elect"
    """The first replica of every partition is asked to lead it."""


NETWORK_ACTS: Final = frozenset({Act.CUT, Act.MUTE, Act.DEAFEN, Act.SEVER})
DISK_ACTS: Final = frozenset({Act.FILL_DISK})
_MOVED_AT_ONCE: Final = 2
REPLICAS: Final = 3


@dataclass(frozen=True, slots=True)
class Strike:
    act: Act
    node: int
    """Whom it hits, where the act leaves that open."""
    other: int
    """A second one, where the act needs it."""
    seconds: float
    """How long the harm lasts, beyond what the act itself needs."""
    moves: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """Partition and new replicas."""

    def __str__(self) -> str:
        said = f"{self.act} {self._whom()}".rstrip()
        return said + (f" for {self.seconds:.1f} s more" if self.seconds else "")

    def _whom(self) -> str:
        match self.act:
            case Act.SEVER | Act.KILL_TWO:
                return f"{self.node} and {self.other}"
            case Act.MOVE | Act.MOVE_AND_KILL:
                return ", ".join(f"{partition} to {list(replicas)}" for partition, replicas in self.moves)
            case Act.KILL_ALL | Act.KILL_ONE_BY_ONE | Act.KILL_CONTROLLER | Act.ROLL | Act.ELECT:
                return ""
            case Act.KILL_LEADER | Act.KILL_COORDINATOR:
                return f"of partition {self.moves[0][0]}"
            case _:
                return str(self.node)


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    brokers: Sequence[int]
    partitions: int
    small_disks: Sequence[int] = ()
    """The brokers whose disk can be filled."""
    slowable_disks: Sequence[int] = ()
    """The brokers whose disk can be slowed."""
    without: Collection[Act] = ()

    def strikes(self) -> Iterator[Strike]:
        """Without end: every act once in each round, in an order of that round's own."""
        dice = random.Random(self.seed)
        left_out = set(self.without)
        left_out |= DISK_ACTS if not self.small_disks else set()
        left_out |= {Act.SLOW_DISK} if not self.slowable_disks else set()
        acts = [act for act in Act if act not in left_out]
        while True:
            yield from [self._strike(dice, act) for act in dice.sample(acts, len(acts))]

    def kills(self) -> Iterator[Strike]:
        """Without end: kills and nothing else, mostly of one node at a time, and of all alike."""
        dice = random.Random(self.seed)
        while True:
            (act,) = dice.choices((Act.KILL, Act.KILL_TWO, Act.KILL_ALL), (12, 2, 1))
            node, other = dice.sample(self.brokers, 2)
            yield Strike(act, node, other, round(dice.uniform(0, 0.6), 2))

    def first(self, count: int) -> list[Strike]:
        return list(islice(self.strikes(), count))

    def _strike(self, dice: random.Random, act: Act) -> Strike:
        node, other = dice.sample(self.brokers, 2)
        if act is Act.FILL_DISK:
            node = dice.choice(self.small_disks)
        elif act is Act.SLOW_DISK:
            node = dice.choice(self.slowable_disks)
        chosen = dice.sample(range(self.partitions), min(_MOVED_AT_ONCE, self.partitions))
        moves = tuple((partition, tuple(dice.sample(self.brokers, REPLICAS))) for partition in chosen)
        return Strike(act, node, other, round(dice.uniform(0, 2.0), 1), moves)

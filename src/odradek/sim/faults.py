"""The faults of a run: drawn from the seed, and limited so that the cluster can recover.

A fault is plain data, so that a run can be repeated without some of them. See `fault_injection` for the kinds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

LEADER: Final = "the leader"
"""The leader of the quorum at the time of the fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Affects `node`, `at_seconds` after the faults start, for `lasts_seconds` if the kind has a duration."""

    kind: str
    node: str
    at_seconds: float
    lasts_seconds: float
    # Depends on the kind: steps until a crash, a delay, a fraction.
    amount: float = 0.0
    peer: str = ""

    def __str__(self) -> str:
        what = f"{self.at_seconds:7.3f} s  {self.kind} {self.node}"
        if self.peer:
            what += f" {self.peer}"
        return f"{what}  for {self.lasts_seconds:.3f} s, {self.amount:.3f}"


# Kind -> how to draw its amount.
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
    "flapping": lambda random: random.choice((0.05, 0.3, 1.0)),
    "shortened-log": lambda random: random.random(),
    "flipped-bit": lambda random: random.random(),
    "stalled-restart": lambda random: random.random(),
    "deposed": lambda random: random.random(),
    "deposed-with-follower": lambda random: random.random(),
    "crash-after-shrink": lambda random: random.random(),
    "flipped-record": lambda random: random.random(),
    "cloned": lambda random: random.random(),
    "host-crash": lambda random: random.random(),
}
# A node that restarts soon meets peers with requests still in flight.
_BRIEF_KINDS: Final = frozenset({"crash-at-vote", "crash-at-lead", "power-loss-at-vote", "power-loss-at-lead"})
_BRIEF_SECONDS: Final = 0.15
# Faults of the link between a node and a peer.
_LINK_KINDS: Final = frozenset({"block", "block-back", "reset", "delay", "flapping", "stalled"})


def draw(
    random: Random,
    kinds: Sequence[str],
    *,
    nodes: Sequence[str],
    clients: Sequence[str],
    seconds: float,
    mean_seconds: float,
    count: int,
    leader_share: float = 0.0,
) -> list[Fault]:
    """Draws `count` faults that end within `seconds`; a share of them affects the current leader."""
    faults = []
    for _ in range(count):
        kind = random.choice(kinds)
        node = random.choice(nodes)
        if leader_share and random.random() < leader_share:
            node = LEADER
        at_seconds = random.uniform(0, seconds * 0.85)
        mean = _BRIEF_SECONDS if kind in _BRIEF_KINDS else mean_seconds
        lasts_seconds = min(random.expovariate(1 / mean), 5 * mean_seconds, seconds - at_seconds)
        faults.append(
            Fault(
                kind=kind,
                node=node,
                at_seconds=at_seconds,
                lasts_seconds=lasts_seconds,
                amount=_AMOUNTS[kind](random) if kind in _AMOUNTS else 0.0,
                peer=_peer(random, [one for one in nodes if one != node], clients) if kind in _LINK_KINDS else "",
            )
        )
    return sorted(faults, key=lambda fault: fault.at_seconds)


def _peer(random: Random, other_nodes: Sequence[str], clients: Sequence[str]) -> str:
    """Half of the link faults are between nodes, although there are more clients."""
    return random.choice(other_nodes if other_nodes and random.random() < 0.5 else clients)

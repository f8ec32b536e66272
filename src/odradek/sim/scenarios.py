"""Kinds of runs: which faults may strike, and what topics promise to survive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from odradek.sim.layout import ONE_NODE, THREE_COMBINED, THREE_CONTROLLERS_TWO_BROKERS, Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    promise: str
    fault_kinds: Sequence[str]
    """Drawn from evenly; a kind named twice comes twice as often."""
    layout: Layout = ONE_NODE
    topic_configs: tuple[tuple[str, str], ...] = ()
    fault_seconds: float = 8.0
    fault_mean_seconds: float = 0.8
    """How long a fault lasts, where that has a meaning."""
    faults_max: int = 8


_NETWORK: Final = ("block", "block-back", "reset", "reset", "delay")
_PROCESS: Final = (
    "crash-at-step",
    "crash-at-step",
    "crash-at-disk",
    "crash-at-disk",
    "crash-at-sync",
    "restart",
    "pause",
)

PROCESS_CRASHES: Final = Scenario(
    name="process-crashes",
    promise="A: processes die, the page cache survives",
    fault_kinds=(*_PROCESS, *_NETWORK, "clock-jump", "slow-disk", "full-disk", "failing-disk"),
)
POWER_LOSS: Final = Scenario(
    name="power-loss",
    promise="C: power is lost, for topics that are synced before they acknowledge",
    # No syncs that fail: what such a disk holds after a later loss of power is nobody's promise.
    fault_kinds=(
        *("power-loss-at-step", "power-loss-at-disk", "power-loss-at-disk", "power-loss-at-sync", "power-loss-at-sync"),
        *("crash-at-step", "crash-at-disk", "crash-at-sync", "restart", "reset", "block", "delay", "slow-disk"),
    ),
    topic_configs=(("flush.messages", "1"),),
)
# Between nodes, and between them and clients. Longer than elections and sessions take.
_PARTITIONS: Final = (
    "isolated",
    "isolated",
    "deaf",
    "mute",
    "bridge",
    "flapping",
    "block",
    "block-back",
    "reset",
    "delay",
)
_POWER: Final = ("power-loss-at-step", "power-loss-at-disk", "power-loss-at-sync", "power-loss-at-sync")

THREE_NODES: Final = Scenario(
    name="three-nodes",
    promise="19 and 23: three voters, which are brokers too, lose power, connections and patience",
    layout=THREE_COMBINED,
    fault_kinds=(*_PARTITIONS, *_POWER, *_PROCESS, "slow-disk", "clock-jump", "shortened-log"),
    topic_configs=(("flush.messages", "1"),),
    fault_seconds=15.0,
    fault_mean_seconds=2.0,
    faults_max=10,
)
FIVE_NODES: Final = Scenario(
    name="five-nodes",
    promise="19 and 23: three controllers and two brokers, as three-nodes",
    layout=THREE_CONTROLLERS_TWO_BROKERS,
    fault_kinds=THREE_NODES.fault_kinds,
    topic_configs=THREE_NODES.topic_configs,
    fault_seconds=15.0,
    fault_mean_seconds=2.0,
    faults_max=12,
)
SCENARIOS: Final[Mapping[str, Scenario]] = {
    one.name: one for one in (PROCESS_CRASHES, POWER_LOSS, THREE_NODES, FIVE_NODES)
}
# One after the other, where a seed is to choose.
DEFAULT_SCENARIOS: Final = (PROCESS_CRASHES, POWER_LOSS)

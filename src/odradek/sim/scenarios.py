"""Kinds of runs: which faults may strike, and what topics promise to survive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    promise: str
    fault_kinds: Sequence[str]
    """Drawn from evenly; a kind named twice comes twice as often."""
    topic_configs: tuple[tuple[str, str], ...] = ()
    fault_seconds: float = 8.0
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
SCENARIOS: Final[Mapping[str, Scenario]] = {one.name: one for one in (PROCESS_CRASHES, POWER_LOSS)}

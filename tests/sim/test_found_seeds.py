"""Faults and false alarms that seeds have found.

Each change of the node changes the schedule of every seed, so a seed that once found a fault proves nothing later: each
fault of a broker is therefore a planted bug, which `test_planted` searches for. The seeds of false alarms run again:
what happened in them is correct, and the checkers must accept it.
"""

from typing import Final

import pytest

from odradek.sim.__main__ import run_one
from odradek.sim.planted import BUGS

pytestmark = pytest.mark.tier("proof")

FAULTS: Final = {
    (40006, "replicas-damaged"): "log-dir-move-outlives-replica",
    (20158, "replicas-damaged"): "log-start-sent-late",
    (40232, "replicas-crash"): "append-after-stop-committed",
    (40159, "replicas-apart"): "isr-requires-log-start",
}
"""Seed and scenario that found a fault of a broker -> the planted bug that reintroduces it."""

FALSE_ALARMS: Final = (
    # A follower does not compare its log with its leader's below the leader's log start offset.
    (70087, "replicas-deposed"),
    # The last replica in the ISR crashes before it has written its log start offset to the checkpoint.
    (70305, "replicas-flushed"),
    # An added replica has no producer state for records that were deleted before it was added.
    (80377, "replicas-power-loss"),
    # Records are deleted while consumer groups commit offsets.
    (100038, "groups"),
    # A heartbeat arrives, and the broker stops before it responds.
    (100325, "groups"),
    # A coordinator that is isolated from the other nodes returns offsets that are no longer current.
    (100409, "groups"),
    # The reader that reads everything at the end is redirected to a new leader meanwhile.
    (103118, "transactions"),
)


@pytest.mark.parametrize(("seed", "scenario"), [*FAULTS, *FALSE_ALARMS])
def test_seed_that_failed_once_passes(seed: int, scenario: str) -> None:
    assert [str(violation) for violation in run_one(seed, scenario, None).violations] == []


@pytest.mark.parametrize(("found_by", "bug"), FAULTS.items())
def test_fault_is_a_planted_bug_of_the_same_scenario(found_by: tuple[int, str], bug: str) -> None:
    assert BUGS[bug].scenario.name == found_by[1]

"""Every planted bug is found: by the seed that found it last, or by another one.

Each change of the node changes the schedules of all seeds; `python -m tests.sim` searches again and records the seeds.
"""

import json
import time

import pytest

from odradek.sim.planted import BUGS
from tests.sim.__main__ import FOUND_BY, SEEDS_MAX, broken_rule

pytestmark = pytest.mark.tier("proof")

OTHER_SEEDS = 100
SEARCH_SECONDS_MAX = 90.0


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", BUGS)
def test_planted_bugs_are_found(name: str) -> None:
    recorded = json.loads(FOUND_BY.read_text())
    assert name in recorded, f"no seed is recorded: python -m tests.sim {name}"
    seed, _ = recorded[name]
    assert seed < SEEDS_MAX
    began = time.process_time()
    for one in (seed, *range(OTHER_SEEDS)):
        if broken_rule(one, name):
            return
        if time.process_time() - began > SEARCH_SECONDS_MAX:
            break
    pytest.fail(f"not found by seed {seed} or {OTHER_SEEDS} others: python -m tests.sim {name}")

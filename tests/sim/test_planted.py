"""Every planted bug is found: by the seed that found it first.

After a change of behaviour other seeds may find them: `python -m tests.sim` writes them down anew.
"""

import json

import pytest

from odradek.sim.planted import BUGS
from tests.sim.__main__ import FOUND_BY, SEEDS_MAX, broken_rule


@pytest.mark.parametrize("name", BUGS)
def test_planted_bugs_are_found(name: str) -> None:
    seed, rule = json.loads(FOUND_BY.read_text())[name]
    assert seed < SEEDS_MAX
    assert broken_rule(seed, name) == rule

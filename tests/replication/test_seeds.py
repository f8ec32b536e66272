"""A short run of the replication simulation. For a long run, use `python -m tests.replication seeds 5000`."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.replication.__main__ import FOUND_BY, failure_of
from tests.replication.bugs import BUGS
from tests.seeded_runs import invariant_of

SEEDS = 100
BLOCK = 20


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.tier("test")) for first in range(BLOCK, SEEDS, BLOCK))]
)
def test_seeds_without_planted_bugs_have_no_violations(first: int) -> None:
    for seed in range(first, first + BLOCK):
        failure = failure_of(seed)
        assert failure is None, f"seed {seed}: {failure}; replay: python -m tests.replication replay {seed}"


@pytest.mark.parametrize("name", BUGS)
def test_planted_bugs_are_found(name: str) -> None:
    """Replays the recorded seed. After a change of behaviour, `python -m tests.replication bugs` records new seeds."""
    seed, invariant = json.loads(FOUND_BY.read_text())[name]
    failure = failure_of(seed, BUGS[name])
    assert failure is not None
    assert invariant_of(failure) == invariant


def trace_hash(seed: int) -> str:
    lines: list[str] = []
    failure_of(seed, lines=lines)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@pytest.mark.tier("test")
def test_a_seed_determines_the_run() -> None:
    assert trace_hash(7) == trace_hash(7) != trace_hash(8)
    code = "from tests.replication.test_seeds import trace_hash; print(trace_hash(7))"
    root = Path(__file__).parent.parent.parent
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        printed = subprocess.run(
            [sys.executable, "-c", code], cwd=root, env=environment, check=True, capture_output=True, text=True
        ).stdout
        assert printed.strip() == trace_hash(7)

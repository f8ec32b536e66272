"""The node as it is, under a hundred seeds: no checker finds a violation, and every run can be repeated exactly."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from odradek.sim.__main__ import run_one

BLOCK = 5
SEEDS_OF_TIER = {"fast": 5, "test": 25, "proof": 100}


def blocks() -> Iterator[Any]:
    """The first seed of each block, which belongs to the earliest tier that runs so many seeds."""
    for first in range(0, max(SEEDS_OF_TIER.values()), BLOCK):
        tier = next(tier for tier, seeds in SEEDS_OF_TIER.items() if first < seeds)
        yield pytest.param(first, marks=pytest.mark.tier(tier))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", list(blocks()))
def test_no_seed_fails_and_runs_can_be_repeated(first: int) -> None:
    seeds = range(first, first + BLOCK)
    # At the same time in another process, where strings have other hashes.
    command = [sys.executable, "-m", "odradek.sim", "--first", str(first), "--seeds", str(BLOCK), "--jobs", "1"]
    command += ["--hashes", "--keep-going"]
    environment = os.environ | {"PYTHONHASHSEED": "4711"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as other:
        results = [run_one(seed, None, None) for seed in seeds]
        output, _ = other.communicate()
    assert [str(result.violations[0]) for result in results if not result.passed] == []
    there = dict(line.split() for line in output.splitlines()[:BLOCK])
    assert {str(result.seed): result.trace_hash for result in results} == there


@pytest.mark.tier("test")
def test_other_seeds_are_other_runs() -> None:
    assert len({run_one(seed, "power-loss", None).trace_hash for seed in range(5)}) == 5


def test_keeping_the_trace_changes_nothing() -> None:
    with_events = run_one(3, None, None, keep_trace=True)
    assert with_events.trace_hash == run_one(3, None, None).trace_hash
    assert len(with_events.events) > 1000
    assert any(event.is_major for event in with_events.events)

"""The node as it is, under a hundred seeds: no checker finds a violation, and every run can be repeated exactly."""

import os
import subprocess
import sys

import pytest

from odradek.sim.__main__ import run_one

PROOF = pytest.mark.tier("proof")
ONLY_BY_NAME = ("running-brokers", "hosts", "slow-readers", "security")
"""Scenarios that no seed chooses by itself."""
BLOCKS = {
    "fast": [range(3)],
    "test": [range(3, 8), range(8, 13), range(13, 19), range(19, 25)],
    "proof": [range(first, first + 15) for first in range(25, 100, 15)],
}
"""Tier -> the seeds that it adds to those of the tiers before it, for one test each."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "seeds",
    [pytest.param(seeds, marks=pytest.mark.tier(tier)) for tier, blocks in BLOCKS.items() for seeds in blocks],
    ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}",
)
def test_no_seed_fails_and_runs_can_be_repeated(seeds: range) -> None:
    check_runs(seeds, None)


@PROOF
@pytest.mark.timeout(900)
def test_runs_with_logins_can_be_repeated() -> None:
    """Nonces and salts come from the seed."""
    check_runs(range(5), "security")


def check_runs(seeds: range, scenario: str | None) -> None:
    # At the same time in another process, where strings have other hashes.
    command = [sys.executable, "-m", "odradek.sim", "--first", str(seeds.start), "--seeds", str(len(seeds))]
    command += ["--jobs", "1", "--hashes", "--keep-going", *(["--scenario", scenario] if scenario else [])]
    environment = os.environ | {"PYTHONHASHSEED": "4711"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as other:
        results = [run_one(seed, scenario, None) for seed in seeds]
        output, _ = other.communicate()
    assert [str(result.violations[0]) for result in results if not result.passed] == []
    there = dict(line.split() for line in output.splitlines()[: len(seeds)])
    assert {str(result.seed): result.trace_hash for result in results} == there


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "seeds", [pytest.param(range(3), marks=pytest.mark.tier("test")), pytest.param(range(3, 20), marks=PROOF)], ids=str
)
@pytest.mark.parametrize("scenario", ONLY_BY_NAME)
def test_no_seed_of_a_scenario_chosen_by_name_fails(scenario: str, seeds: range) -> None:
    results = [run_one(seed, scenario, None) for seed in seeds]
    assert [str(result.violations[0]) for result in results if not result.passed] == []


@pytest.mark.tier("test")
def test_other_seeds_are_other_runs() -> None:
    assert len({run_one(seed, "power-loss", None).trace_hash for seed in range(5)}) == 5


def test_keeping_the_trace_changes_nothing() -> None:
    with_events = run_one(3, None, None, keep_trace=True)
    assert with_events.trace_hash == run_one(3, None, None).trace_hash
    assert len(with_events.events) > 1000
    assert any(event.is_major for event in with_events.events)

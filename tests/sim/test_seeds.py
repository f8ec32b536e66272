"""The node as it is, under a hundred seeds: nothing is false, and a run can be repeated to the event."""

import os
import subprocess
import sys

import pytest

from odradek.sim.__main__ import run_one

SEEDS = 100


@pytest.mark.timeout(900)
def test_no_seed_fails_and_runs_can_be_repeated() -> None:
    # In another process, whose hashes of strings are others, at the same time.
    command = [sys.executable, "-m", "odradek.sim", "--seeds", str(SEEDS), "--jobs", "1", "--hashes", "--keep-going"]
    environment = os.environ | {"PYTHONHASHSEED": "4711"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as other:
        results = [run_one(seed, None, None) for seed in range(SEEDS)]
        output, _ = other.communicate()
    assert [str(result.violations[0]) for result in results if not result.passed] == []
    there = dict(line.split() for line in output.splitlines()[:SEEDS])
    assert {str(result.seed): result.trace_hash for result in results} == there


def test_other_seeds_are_other_runs() -> None:
    assert len({run_one(seed, "power-loss", None).trace_hash for seed in range(5)}) == 5


def test_keeping_the_trace_changes_nothing() -> None:
    with_events = run_one(3, None, None, keep_trace=True)
    assert with_events.trace_hash == run_one(3, None, None).trace_hash
    assert len(with_events.events) > 1000
    assert any(event.is_major for event in with_events.events)

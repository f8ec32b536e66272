"""Shared by the simulations of one state machine: runs many seeds, and searches for planted bugs."""

import json
import sys
import time
from collections.abc import Callable, Iterable
from multiprocessing import Pool
from pathlib import Path
from typing import Final

_SEEDS_PER_TASK: Final = 5


def run_seeds(failure_of: Callable[[int], str | None], first: int, count: int, *, module: str) -> int:
    """Runs them on all processors and stops at the first failure. `module` replays a seed."""
    start = time.monotonic()
    seeds = range(first, first + count)
    with Pool() as pool:
        failures = pool.imap(failure_of, seeds, chunksize=_SEEDS_PER_TASK)
        for done, (seed, failure) in enumerate(zip(seeds, failures, strict=True), 1):
            if failure is not None:
                print(f"\nseed {seed}: {failure}\nreplay: python -m {module} replay {seed}")
                return 1
            if done % 50 == 0 or done == count:
                per_second = done / (time.monotonic() - start)
                print(f"\r{done} of {count} seeds, {per_second:.0f} per second", end="", file=sys.stderr)
    print(f"\n{count} seeds from {first} on: no violation")
    return 0


def find_bugs(
    failure_of: Callable[[int, str], str | None], names: Iterable[str], seeds: int, found: dict[str, tuple[int, str]]
) -> int:
    """Adds to `found` the first seed that finds each bug, with the violated invariant. Returns the misses."""
    missed = 0
    for name in names:
        for seed in range(seeds):
            failure = failure_of(seed, name)
            if failure is not None:
                found[name] = (seed, invariant_of(failure))
                print(f"{name}: seed {seed}: {failure}", flush=True)
                break
        else:
            missed += 1
            print(f"{name}: not found in {seeds} seeds", flush=True)
    return missed


def write_found(path: Path, found: dict[str, tuple[int, str]]) -> None:
    path.write_text(json.dumps(found, indent=2) + "\n")


def invariant_of(failure: str) -> str:
    return failure.split(": ")[1]

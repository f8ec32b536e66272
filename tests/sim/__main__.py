"""`python -m tests.sim`: searches for the planted bugs, and records the first seed that finds each of them."""

import json
import re
import sys
from collections.abc import Sequence
from multiprocessing import Pool
from pathlib import Path
from typing import Final

from odradek.sim.__main__ import run_one
from odradek.sim.planted import BUGS
from odradek.sim.run import UNEXPECTED

FOUND_BY: Final = Path(__file__).parent / "found_by.json"
"""Planted bug -> the first seed that finds it and the violated rule; `test_planted` replays these."""
SEEDS_MAX: Final = 500
_MISFIT: Final = re.compile("^(TypeError|AttributeError|NameError): ", re.MULTILINE)


class OutdatedBug(Exception):
    """The planted bug no longer fits the code that it patches."""


def broken_rule(seed: int, bug: str) -> str | None:
    result = run_one(seed, None, bug)
    for violation in result.violations:
        if violation.rule == UNEXPECTED and _MISFIT.search(violation.what):
            raise OutdatedBug(violation.what)
    return result.violations[0].rule if result.violations else None


def main(names: Sequence[str], *, should_write: bool = True) -> int:
    """Searches for all bugs, or only for `names`, on all processors."""
    wanted = names or list(BUGS)
    missed = []
    with Pool() as pool:
        for name, found in zip(wanted, pool.imap(_first_seed_that_finds, wanted), strict=True):
            if found is None:
                missed.append(name)
                print(f"{name:34} not found by {SEEDS_MAX} seeds", flush=True)
            else:
                print(f"{name:34} seed {found[0]:3d}: {found[1]}", flush=True)
            if should_write:
                _record(name, found)
    return 1 if missed else 0


def _first_seed_that_finds(name: str) -> tuple[int, str] | None:
    for seed in range(SEEDS_MAX):
        rule = broken_rule(seed, name)
        if rule is not None:
            return seed, rule
    return None


def _record(name: str, seed_and_rule: tuple[int, str] | None) -> None:
    """Called after each bug, because the whole search takes long."""
    found = json.loads(FOUND_BY.read_text()) if FOUND_BY.exists() else {}
    found[name] = seed_and_rule
    lines = (f"  {json.dumps(one)}: {json.dumps(found[one])}" for one in sorted(found) if one in BUGS and found[one])
    FOUND_BY.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    # With --no-write the recorded seeds stay unchanged.
    chosen = [name for name in sys.argv[1:] if name != "--no-write"]
    sys.exit(main(chosen, should_write="--no-write" not in sys.argv))

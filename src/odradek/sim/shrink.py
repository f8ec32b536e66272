"""Finds a minimal set of faults with which a run still fails."""

from collections.abc import Callable, Sequence
from typing import Final

from odradek.sim.run import Result

_RUNS_MAX: Final = 80


def shrink(result: Result, run: Callable[[Sequence[int]], Result]) -> tuple[list[int], int]:
    """Places of the faults without which the run of a seed no longer breaks the rule that it broke first.

    `run` repeats it with the faults at the given places only. Also returned: how many runs it took. A run with fewer
    faults is another run, so what is left need not be the least there is; but nothing of it can be left out.
    """
    rule = result.violations[0].rule
    kept = list(range(len(result.faults)))
    runs = 0
    size = len(kept)
    while size >= 1 and runs < _RUNS_MAX:
        start = 0
        while start < len(kept) and runs < _RUNS_MAX:
            fewer = kept[:start] + kept[start + size :]
            runs += 1
            if any(violation.rule == rule for violation in run(fewer).violations):
                kept = fewer
            else:
                start += size
        size //= 2
    return kept, runs

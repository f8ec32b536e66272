"""What `make bench` runs: the suites of sessions and the rows of workloads, chosen with `--only`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.suites import SUITES
from bench.workloads import rounds

WORKLOADS: Final = "workloads"
"""All rows of workloads together."""
SUITE_NAMES: Final = tuple(suite.name for suite in SUITES)
NAMES: Final = (*SUITE_NAMES, WORKLOADS, *rounds.NAMES)


@dataclass(frozen=True)
class Selection:
    suites: tuple[str, ...] = SUITE_NAMES
    rows: tuple[str, ...] = rounds.NAMES

    @property
    def has_all_rows(self) -> bool:
        return set(self.rows) == set(rounds.NAMES)


def parse_selection(names: str) -> Selection:
    """Names with commas between them, in any order. Raises ValueError for an unknown name."""
    return select([name.strip() for name in names.split(",")])


def select(names: Sequence[str]) -> Selection:
    if unknown := [name for name in names if name not in NAMES]:
        raise ValueError(f"unknown: {', '.join(unknown)}; known are {', '.join(NAMES)}")
    rows = rounds.NAMES if WORKLOADS in names else tuple(name for name in rounds.NAMES if name in names)
    return Selection(tuple(name for name in SUITE_NAMES if name in names), rows)

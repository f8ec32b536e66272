"""`python -m tests.sim.campaign`: many seeds of every scenario, in pieces that survive interruptions.

The results of each piece are kept in a file per commit, so that a later call continues where an earlier one ended. The
scenarios take turns. The exit status is 0 when all seeds have passed, 1 when some have failed, and 2 while some have
not run.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from odradek.sim.__main__ import run_one
from odradek.sim.report import replay_command
from odradek.sim.scenarios import SCENARIOS

RESULTS: Final = Path("proof-logs")
SEEDS_PER_PIECE: Final = 20
ALL_PASSED, SOME_FAILED, UNFINISHED = 0, 1, 2
NICENESS: Final = 19


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive seeds of one scenario."""

    scenario: str
    first: int
    count: int
    failures: tuple[tuple[int, str], ...] = ()
    """Seed and first violation."""
    cpu_seconds: float = 0.0


def run_piece(piece: Piece) -> Piece:
    began = time.process_time()
    failures = []
    for seed in range(piece.first, piece.first + piece.count):
        try:
            violations = [str(one) for one in run_one(seed, piece.scenario, None).violations]
        except Exception as error:  # noqa: BLE001 - a failure of the simulator is one of this seed
            violations = [f"cannot be run: {type(error).__name__}: {error}"]
        if violations:
            failures.append((seed, violations[0].splitlines()[0]))
    return Piece(piece.scenario, piece.first, piece.count, tuple(failures), time.process_time() - began)


class Campaign:
    def __init__(self, file: Path, scenarios: Sequence[str], first: int, seeds: int) -> None:
        """`file` keeps one line for each piece that has run."""
        self._file: Final = file
        self._scenarios: Final = tuple(scenarios)
        self._first: Final = first
        self._seeds: Final = seeds
        self.done: Final = [piece for piece in _read(file) if self._contains(piece)]

    def missing(self) -> list[Piece]:
        """The scenarios take turns, so that an interrupted campaign says something about each of them."""
        known = {(piece.scenario, piece.first) for piece in self.done}
        last = self._first + self._seeds
        return [
            Piece(scenario, first, min(SEEDS_PER_PIECE, last - first))
            for first in range(self._first, last, SEEDS_PER_PIECE)
            for scenario in self._scenarios
            if (scenario, first) not in known
        ]

    def add(self, piece: Piece) -> None:
        self.done.append(piece)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a") as file:
            # On a line of its own, even if the last one was cut off.
            file.write(f"\n{json.dumps(asdict(piece))}\n")

    def report(self) -> Iterable[str]:
        yield f"{'scenario':24} {'seeds':>12} {'failed':>7} {'seeds per minute and core':>26}"
        for scenario in self._scenarios:
            pieces = [piece for piece in self.done if piece.scenario == scenario]
            count = sum(piece.count for piece in pieces)
            failed = sum(len(piece.failures) for piece in pieces)
            seconds = sum(piece.cpu_seconds for piece in pieces)
            pace = f"{count * 60 / seconds:.0f}" if seconds else "-"
            yield f"{scenario:24} {count:>6} of {self._seeds:>4} {failed:>6} {pace:>26}"
        for piece in self.done:
            for seed, violation in piece.failures:
                yield f"seed {seed}, {piece.scenario}: {violation}"
                yield f"  again: {replay_command(seed, piece.scenario, None, None)}"

    @property
    def status(self) -> int:
        if any(piece.failures for piece in self.done):
            return SOME_FAILED
        return UNFINISHED if self.missing() else ALL_PASSED

    def _contains(self, piece: Piece) -> bool:
        """A piece of another campaign may have another size: it counts only if it is one of this campaign."""
        offset = piece.first - self._first
        is_inside = 0 <= offset < self._seeds and offset % SEEDS_PER_PIECE == 0
        size = min(SEEDS_PER_PIECE, self._seeds - offset)
        return is_inside and piece.count == size and piece.scenario in self._scenarios


def _read(file: Path) -> list[Piece]:
    """A line that was being written when the campaign was killed is ignored."""
    pieces = []
    for line in file.read_text().splitlines() if file.exists() else ():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        failures = tuple((seed, violation) for seed, violation in found.pop("failures"))
        pieces.append(Piece(**found, failures=failures))
    return pieces


def commit_of_working_tree() -> str:
    """Raises SystemExit if there are changes: the runs could not be repeated."""
    if _git("status", "--porcelain"):
        raise SystemExit("The working tree has changes. Commit them first, so that the results belong to a commit.")
    return _git("rev-parse", "--short=12", "HEAD")


def _git(*arguments: str) -> str:
    return subprocess.run(("git", *arguments), check=True, capture_output=True, text=True).stdout.strip()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.campaign", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="seeds per scenario (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="first seed (default: %(default)s)")
    parser.add_argument("--scenario", action="append", choices=sorted(SCENARIOS), help="scenario (default: all)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="number of processes (default: %(default)s)")
    parser.add_argument("--minutes", type=float, help="start no piece after this time (default: run all)")
    parser.add_argument("--report", action="store_true", help="run nothing, only report the results so far")
    options = parser.parse_args(arguments)
    file = RESULTS / f"sim-{commit_of_working_tree()}.jsonl"
    campaign = Campaign(file, options.scenario or list(SCENARIOS), options.first, options.seeds)
    if not options.report:
        _run(campaign, options.jobs, None if options.minutes is None else options.minutes * 60)
    print("\n".join(campaign.report()))
    return campaign.status


def _run(campaign: Campaign, jobs: int, seconds_max: float | None) -> None:
    began = time.monotonic()
    waiting = deque(campaign.missing())
    running: set[Future[Piece]] = set()
    with ProcessPoolExecutor(jobs, initializer=os.nice, initargs=(NICENESS,)) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    running.add(pool.submit(run_piece, waiting.popleft()))
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for piece in (future.result() for future in done):
                    campaign.add(piece)
                    print(f"{piece.scenario} from {piece.first} on: {len(piece.failures)} failed", flush=True)
                if seconds_max is not None and time.monotonic() - began > seconds_max:
                    waiting.clear()
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            print("Interrupted: the next call continues here.", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())

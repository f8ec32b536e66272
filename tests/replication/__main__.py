"""Runs many seeds, replays one seed, or searches for the planted bugs: `python -m tests.replication --help`."""

import argparse
import json
import sys
from pathlib import Path

from tests.replication.bugs import BUGS, Bug, planted
from tests.replication.scenario import Scenario
from tests.seeded_runs import find_bugs, run_seeds, write_found

FOUND_BY = Path(__file__).parent / "found_by.json"
"""For every planted bug: the first seed that finds it, and the violated invariant. The tests replay these seeds."""
_CLEAN = Bug()


def failure_of(seed: int, bug: Bug = _CLEAN, lines: list[str] | None = None) -> str | None:
    with planted(bug):
        scenario = Scenario(seed, broker_type=bug.broker_type, controller_type=bug.controller_type)
        scenario.world.lines = lines
        try:
            scenario.run()
        except Exception as error:  # noqa: BLE001 (any error that ends a run is a finding)
            return f"{type(error).__name__} at {scenario.world.now_ms} ms: {error}"
    return None


def replay(seed: int, bug_name: str | None, last_lines: int) -> int:
    lines: list[str] = []
    failure = failure_of(seed, BUGS[bug_name] if bug_name else _CLEAN, lines)
    print("\n".join(lines[-last_lines:]))
    print(failure or "no violation")
    return 1 if failure else 0


def record_found_seeds(seeds: int, only: str | None) -> int:
    """Records the first seed that finds each bug, or only the named one."""
    found: dict[str, tuple[int, str]] = {} if only is None else json.loads(FOUND_BY.read_text())
    names = list(BUGS) if only is None else [only]
    missed = find_bugs(lambda seed, name: failure_of(seed, BUGS[name]), names, seeds, found)
    write_found(FOUND_BY, found)
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.replication", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    seeds = commands.add_parser("seeds", help="run many seeds and stop at the first failure")
    seeds.add_argument("count", type=int)
    seeds.add_argument("--first", type=int, default=0)
    again = commands.add_parser("replay", help="run one seed and print its events")
    again.add_argument("seed", type=int)
    again.add_argument("--bug", choices=sorted(BUGS))
    again.add_argument("--lines", type=int, default=60)
    bugs = commands.add_parser("bugs", help="search for every planted bug and record the seeds that find it")
    bugs.add_argument("--seeds", type=int, default=500)
    bugs.add_argument("--only", choices=sorted(BUGS))
    arguments = parser.parse_args()
    match arguments.command:
        case "seeds":
            return run_seeds(failure_of, arguments.first, arguments.count, module="tests.replication")
        case "replay":
            return replay(arguments.seed, arguments.bug, arguments.lines)
        case _:
            return record_found_seeds(arguments.seeds, arguments.only)


if __name__ == "__main__":
    sys.exit(main())

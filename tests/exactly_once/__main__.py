"""`python -m tests.exactly_once`, or `make exactly-once RECORDS=100000`: all combinations, and a table of them."""

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import KafkaException

from tests.exactly_once.combinations import ALL, BY_NAME, Combination
from tests.exactly_once.copier import CopierFailed
from tests.exactly_once.run import Outcome, run
from tests.kafka.apache_kafka import kafka_libs
from tests.node_process import NodeFailed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.exactly_once", description=__doc__)
    parser.add_argument("--records", type=int, default=100_000, help="how many are copied in each combination")
    parser.add_argument("--only", nargs="+", choices=BY_NAME, metavar="NAME", help=f"some of: {', '.join(BY_NAME)}")
    parser.add_argument("--directory", type=Path, help="for data and logs; else a new one, removed if all is well")
    options = parser.parse_args()
    # Whoever ends it, nodes and copiers end with it.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    directory = options.directory or Path(tempfile.mkdtemp(prefix="odradek-exactly-once-"))
    chosen = [BY_NAME[name] for name in options.only] if options.only else list(ALL)
    libs = kafka_libs()
    rows, failed = [], 0
    for number, combination in enumerate(chosen, 1):
        _say(f"{number} of {len(chosen)}: {combination.name}, {options.records:,} records")
        is_well, row = _run_one(combination, options.records, libs, directory / combination.name)
        failed += not is_well
        rows.append(row)
        _say(row)
    print(_table(rows))
    print(f"{len(chosen) - failed} of {len(chosen)} combinations: output equals input, in order")
    if failed:
        _say(f"logs and data: {directory}")
        return 1
    if options.directory is None:
        shutil.rmtree(directory)
    return 0


def _run_one(combination: Combination, records: int, libs: Path, directory: Path) -> tuple[bool, str]:
    """Whether output equals input, and a row of the table."""
    directory.mkdir(parents=True, exist_ok=True)
    began_at = time.monotonic()
    try:
        outcome = run(combination, records, libs, directory, say=lambda line: _say(f"  {line}"))
    except (AssertionError, CopierFailed, KafkaException, NodeFailed, subprocess.TimeoutExpired) as error:
        _say(str(error))
        return False, _row(combination, f"{time.monotonic() - began_at:.1f}", "", "", "", str(error).splitlines()[0])
    for difference in outcome.differences:
        _say(difference)
    return not outcome.differences, _row_of(outcome)


def _row_of(outcome: Outcome) -> str:
    what = f"{len(outcome.differences)} differences" if outcome.differences else "equal, in order"
    numbers = (f"{outcome.seconds:.1f}", f"{outcome.records:,}", f"{outcome.bounces}", f"{outcome.lives}")
    return _row(outcome.combination, *numbers, what)


def _row(combination: Combination | None, seconds: str, records: str, bounces: str, lives: str, what: str) -> str:
    name = "combination" if combination is None else combination.name
    return f"{name:<28} {seconds:>8} {records:>10} {bounces:>8} {lives:>6}  {what}"


def _table(rows: list[str]) -> str:
    return "\n".join([_row(None, "seconds", "records", "bounces", "lives", "output"), *rows])


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

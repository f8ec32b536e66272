"""Runs all combinations and prints a table (`python -m tests.exactly_once` or `make exactly-once RECORDS=100000`)."""

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
    parser.add_argument("--records", type=int, default=100_000, help="number of records to copy in each combination")
    parser.add_argument(
        "--only", nargs="+", choices=BY_NAME, metavar="NAME", help=f"combinations to run: {', '.join(BY_NAME)}"
    )
    parser.add_argument(
        "--directory", type=Path, help="directory for data and logs (default: a new one, removed after success)"
    )
    options = parser.parse_args()
    # Exit through `finally` blocks, so that nodes and copiers are stopped.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    directory = options.directory or Path(tempfile.mkdtemp(prefix="odradek-exactly-once-"))
    chosen = [BY_NAME[name] for name in options.only] if options.only else list(ALL)
    libs = kafka_libs()
    rows, failed = [], 0
    for number, combination in enumerate(chosen, 1):
        _log(f"{number} of {len(chosen)}: {combination.name}, {options.records:,} records")
        is_equal, row = _run_one(combination, options.records, libs, directory / combination.name)
        failed += not is_equal
        rows.append(row)
        _log(row)
    print(_table(rows))
    print(f"{len(chosen) - failed} of {len(chosen)} combinations: output equals input, in order")
    if failed:
        _log(f"logs and data: {directory}")
        return 1
    if options.directory is None:
        shutil.rmtree(directory)
    return 0


def _run_one(combination: Combination, records: int, libs: Path, directory: Path) -> tuple[bool, str]:
    """Returns whether output equals input, and a row of the table."""
    directory.mkdir(parents=True, exist_ok=True)
    began_at = time.monotonic()
    try:
        outcome = run(combination, records, libs, directory, log=lambda line: _log(f"  {line}"))
    except (AssertionError, CopierFailed, KafkaException, NodeFailed, subprocess.TimeoutExpired) as error:
        _log(str(error))
        return False, _row(combination, f"{time.monotonic() - began_at:.1f}", "", "", "", str(error).splitlines()[0])
    for difference in outcome.differences:
        _log(difference)
    return not outcome.differences, _row_of(outcome)


def _row_of(outcome: Outcome) -> str:
    what = f"{len(outcome.differences)} differences" if outcome.differences else "equal, in order"
    numbers = (f"{outcome.seconds:.1f}", f"{outcome.records:,}", f"{outcome.bounces}", f"{outcome.starts}")
    return _row(outcome.combination, *numbers, what)


def _row(combination: Combination | None, seconds: str, records: str, bounces: str, starts: str, what: str) -> str:
    name = "combination" if combination is None else combination.name
    return f"{name:<28} {seconds:>8} {records:>10} {bounces:>8} {starts:>6}  {what}"


def _table(rows: list[str]) -> str:
    return "\n".join([_row(None, "seconds", "records", "bounces", "starts", "output"), *rows])


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

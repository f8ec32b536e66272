"""Chaos testing (`python -m tests.chaos` or `make chaos`): injects faults, then prints figures and all anomalies."""

import argparse
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.chaos.figures import as_json, as_table, shown
from tests.chaos.plan import FaultKind
from tests.chaos.run import Outcome, Settings, run
from tests.components import ComponentMissing
from tests.kafka.apache_kafka import kafka_libs

_PLAN_SHOWN = 40


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, default=2.0, help="inject all kinds of faults for this long")
    length.add_argument("--kills", type=int, default=0, help="only kill nodes (kill -9), this many times")
    parser.add_argument("--seed", type=int, help="seed of the fault plan (default: random, printed at start)")
    parser.add_argument(
        "--only", nargs="+", type=FaultKind, metavar="FAULT", help=f"kinds of faults: {', '.join(FaultKind)}"
    )
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.add_argument(
        "--directory",
        type=Path,
        help="directory for data and logs (default: a new one, removed after a run without anomalies)",
    )
    options = parser.parse_args()
    # Exit through `finally` blocks, so that network namespaces and mounts are removed.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))

    directory = options.directory or Path(tempfile.mkdtemp(prefix="odradek-chaos-"))
    directory.mkdir(parents=True, exist_ok=True)
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    print(f"seed {seed}, logs in {directory}", file=sys.stderr)
    settings = _settings(options, seed, directory)
    outcome = run(settings, lambda line: print(line, file=sys.stderr, flush=True))
    as_text = as_json if options.format == "json" else as_table
    print(as_text(outcome.figures, outcome.anomalies))
    if outcome.anomalies:
        _print_anomalies(outcome, settings)
        return 1
    if options.directory is None:
        shutil.rmtree(directory)
    return 0


def _settings(options: argparse.Namespace, seed: int, directory: Path) -> Settings:
    libs, missing = None, []
    try:
        libs = kafka_libs()
    except ComponentMissing as error:
        missing.append(f"Java clients: {error}")
    return Settings(
        seed=seed,
        directory=directory,
        seconds=options.minutes * 60,
        kills=options.kills,
        kinds=frozenset(options.only or FaultKind),
        kafka_libs=libs,
        missing=missing,
    )


def _print_anomalies(outcome: Outcome, settings: Settings) -> None:
    print(f"\n{shown(outcome.anomalies)}\n", file=sys.stderr)
    print("Faults, with their start time:", file=sys.stderr)
    for fault in outcome.faults[-_PLAN_SHOWN:]:
        print(f"  {fault}", file=sys.stderr)
    print(f"\nTo repeat: --seed {settings.seed}. Logs and data: {settings.directory}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())

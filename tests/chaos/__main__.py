"""`python -m tests.chaos`, or `make chaos`: a run of the given length, its figures, and every anomaly it found."""

import argparse
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.chaos.figures import as_json, as_table, shown
from tests.chaos.plan import Act
from tests.chaos.run import Outcome, Settings, run
from tests.components import ComponentMissing
from tests.kafka.apache_kafka import kafka_libs

_PLAN_SHOWN = 40


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, default=2.0, help="how long the cluster is harmed, in all ways")
    length.add_argument("--kills", type=int, default=0, help="kill -9 so often instead, and nothing else")
    parser.add_argument("--seed", type=int, help="what is done, and in which order; else one is drawn and shown")
    parser.add_argument("--only", nargs="+", type=Act, metavar="ACT", help=f"some of: {', '.join(Act)}")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.add_argument("--directory", type=Path, help="for data and logs; else a new one, removed if all is well")
    options = parser.parse_args()
    # Whoever ends it, networks and disks of its own are taken down.
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
        _tell_of_anomalies(outcome, settings)
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
        acts=frozenset(options.only or Act),
        kafka_libs=libs,
        missing=missing,
    )


def _tell_of_anomalies(outcome: Outcome, settings: Settings) -> None:
    print(f"\n{shown(outcome.anomalies)}\n", file=sys.stderr)
    print("What was done, from its second on:", file=sys.stderr)
    for strike in outcome.strikes[-_PLAN_SHOWN:]:
        print(f"  {strike}", file=sys.stderr)
    print(f"\nAgain: --seed {settings.seed}. Logs and data: {settings.directory}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m bench`: runs the sessions in turn and reports. `--quick` only shows that everything works."""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from bench import report
from bench.loads import FULL, QUICK
from bench.results import Results, describe_machine
from bench.session import BROKERS, run_session
from tests.components import ROOT, ComponentMissing
from tests.kafka.apache_kafka import kafka_libs

RESULTS = ROOT / "bench-results"
DOCS = ROOT / "docs"
REPETITIONS = 3


def main() -> int:
    options = _parse(sys.argv[1:])
    # Wide enough for the table, also where the output is kept in a file.
    console = Console(width=max(Console().width, 110))
    try:
        libs = kafka_libs()
    except ComponentMissing as problem:
        console.print(f"the benchmark needs Apache Kafka beside it: {problem}")
        return 2
    results = _measure(libs, options, console)
    results.save(RESULTS / "results.json")
    report.print_table(results, console)
    report.draw(results, RESULTS / "benchmarks.png")
    console.print(f"written to {RESULTS.relative_to(ROOT)}/: results.json, benchmarks.png")
    if options.docs:
        picture = DOCS / "images" / "benchmarks.png"
        report.draw(results, picture)
        report.write_page(results, DOCS / "benchmarks.md", picture)
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one repetition of small loads; its numbers mean little")
    parser.add_argument("--docs", action="store_true", help="write docs/benchmarks.md and its picture from this run")
    parser.add_argument("--repetitions", type=int, default=None, help=f"{REPETITIONS} unless said, 1 with --quick")
    return parser.parse_args(arguments)


def _measure(libs: Path, options: argparse.Namespace, console: Console) -> Results:
    repetitions = options.repetitions or (1 if options.quick else REPETITIONS)
    results = Results(describe_machine(), options.quick)
    volumes = QUICK if options.quick else FULL
    with console.status("") as status:
        for repetition in range(1, repetitions + 1):
            for broker in BROKERS:
                where = f"repetition {repetition} of {repetitions}, {broker}"

                def progress(step: str, where: str = where) -> None:
                    status.update(f"{where}: {step}")

                results.add(broker, run_session(broker, libs, volumes, progress))
                console.print(f"{where}: done")
    return results


if __name__ == "__main__":
    sys.exit(main())

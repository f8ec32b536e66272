"""Compares Odradek with Apache Kafka and reports the results. `--quick` only checks that everything works."""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from bench import report
from bench.loads import FULL, QUICK
from bench.page import DOCS, PAGE
from bench.products import PRODUCTS, find_kafka, wide_console
from bench.results import RESULTS, Results, describe_machine
from bench.suites import SUITES, Suite

REPETITIONS = 3


def main() -> int:
    options = _parse(sys.argv[1:])
    console = wide_console()
    libs = find_kafka(console)
    if libs is None:
        return 2
    for suite in SUITES:
        if options.only in (None, suite.name):
            _report(suite, _measure(suite, libs, options, console), console, to_docs=options.docs)
    return 0


def _report(suite: Suite, results: Results, console: Console, *, to_docs: bool) -> None:
    values = RESULTS / f"{suite.name}.json"
    results.save(values)
    report.print_table(suite, results, console)
    report.draw(suite, results, RESULTS / suite.picture)
    console.print(f"Results in {RESULTS.name}/: {values.name}, {suite.picture}")
    if to_docs:
        picture = DOCS / "images" / suite.picture
        report.draw(suite, results, picture)
        report.write_page(suite, results, PAGE, picture)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="one repetition of small loads, only to check that everything works"
    )
    parser.add_argument("--docs", action="store_true", help="write docs/benchmarks.md and its chart from this run")
    parser.add_argument(
        "--repetitions", type=int, default=None, help=f"number of repetitions (default: {REPETITIONS}, 1 with --quick)"
    )
    parser.add_argument("--only", choices=[suite.name for suite in SUITES], help="run only this suite")
    return parser.parse_args(arguments)


def _measure(suite: Suite, libs: Path, options: argparse.Namespace, console: Console) -> Results:
    repetitions = options.repetitions or (1 if options.quick else REPETITIONS)
    results = Results(suite.name, describe_machine(), options.quick)
    volumes = QUICK if options.quick else FULL
    with console.status("") as status:
        for repetition in range(1, repetitions + 1):
            for product in PRODUCTS:
                where = f"repetition {repetition} of {repetitions}, {suite.title}, {product}"

                def progress(step: str, where: str = where) -> None:
                    status.update(f"{where}: {step}")

                results.add(product, suite.run_session(product, libs, volumes, progress))
                console.print(f"{where}: done")
    return results


if __name__ == "__main__":
    sys.exit(main())

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
from bench.selection import NAMES, Selection, parse_selection
from bench.suites import SUITES, Suite
from bench.workloads import report as workloads_report
from bench.workloads import rounds

REPETITIONS = 3
COLUMNS = 180


def main() -> int:
    options = _parse(sys.argv[1:])
    console = wide_console(COLUMNS)
    libs = find_kafka(console)
    if libs is None:
        return 2
    for suite in SUITES:
        if suite.name in options.only.suites:
            _report(suite, _measure(suite, libs, options, console), console, to_docs=options.docs)
    if options.only.rows:
        _run_rows(options, libs, console)
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


def _run_rows(options: argparse.Namespace, libs: Path, console: Console) -> None:
    size = rounds.QUICK if options.quick else rounds.FULL
    values = RESULTS / "workloads.json"
    machine = describe_machine()
    measured = rounds.Measured()
    try:
        with console.status("") as status:
            rounds.run(options.only.rows, libs, size, measured, status.update, console.print)
    finally:
        workloads_report.save(measured, machine, values)
        workloads_report.print_tables(measured, console)
    console.print(f"Results in {RESULTS.name}/: {values.name}")
    if options.docs:
        workloads_report.write_section(measured, machine, PAGE)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="one repetition of small loads, only to check that everything works"
    )
    parser.add_argument("--docs", action="store_true", help="write docs/benchmarks.md and its chart from this run")
    parser.add_argument(
        "--repetitions", type=int, default=None, help=f"number of repetitions (default: {REPETITIONS}, 1 with --quick)"
    )
    parser.add_argument(
        "--only",
        metavar="NAME,NAME",
        type=_selection,
        default=Selection(),
        help=f"run only these suites and rows: {', '.join(NAMES)}",
    )
    options = parser.parse_args(arguments)
    if options.docs and options.only.rows and not options.only.has_all_rows:
        parser.error("--docs needs all rows of workloads: leave out --only, or add workloads to it")
    return options


def _selection(names: str) -> Selection:
    try:
        return parse_selection(names)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem


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

"""`python -m odradek.sim`: runs many seeds, or repeats one.

For a seed that fails it prints the violations, the command that repeats the run, and a timeline with the fewest faults
that still make it fail.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Final

from odradek.sim.planted import BUGS
from odradek.sim.planted_bug import install_bug
from odradek.sim.report import describe, replay_command
from odradek.sim.run import Result, run_seed
from odradek.sim.scenarios import SCENARIOS, Scenario, default_scenario
from odradek.sim.shrink import shrink
from odradek.sim.speed import measure_busy, measure_idle

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
_REPORT_SECONDS: Final = 10.0
_SPEED_SECONDS: Final = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.list:
        _list()
        return EXIT_OK
    if options.speed:
        _measure()
        return EXIT_OK
    if options.seed is not None:
        return _repeat(options)
    return _explore(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m odradek.sim", description="Runs real nodes on simulated computers."
    )
    parser.add_argument("--seeds", type=int, default=100, help="number of seeds (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="first seed (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="run this seed only")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), help="scenario (default: chosen by the seed)")
    parser.add_argument("--faults", help="with --seed: inject only the faults with these indexes, e.g. 0,3, or none")
    parser.add_argument("--trace", action="store_true", help="with --seed: print every event")
    parser.add_argument("--plant", choices=sorted(BUGS), metavar="BUG", help="plant this bug; --list shows all bugs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="number of processes (default: %(default)s)")
    parser.add_argument("--keep-going", action="store_true", help="continue after a seed fails")
    parser.add_argument("--hashes", action="store_true", help="print the trace hash of every seed")
    parser.add_argument(
        "--speed", action="store_true", help="measure simulated seconds per second instead of running seeds"
    )
    parser.add_argument("--list", action="store_true", help="list the scenarios and planted bugs")
    return parser


def _list() -> None:
    print("scenarios:")
    for scenario in SCENARIOS.values():
        print(f"  {scenario.name:32} {scenario.promise}")
    print("planted bugs:")
    for bug in BUGS.values():
        print(f"  {bug.name:32} {bug.what} ({bug.scenario.name})")


def _measure() -> None:
    idle, busy = measure_idle(_SPEED_SECONDS), measure_busy(_SPEED_SECONDS)
    operations = f"{busy.operations_per_simulated_second:.0f} client operations per simulated second"
    print(f"three idle nodes: {idle.simulated_per_real_second:.0f} simulated seconds per second of processor time")
    print(f"three nodes with {operations}: {busy.simulated_per_real_second:.0f}")


def scenario_of(seed: int, name: str | None, bug: str | None) -> Scenario:
    if name is not None:
        return SCENARIOS[name]
    if bug is not None:
        return BUGS[bug].scenario
    return default_scenario(seed)


def run_one(
    seed: int,
    scenario_name: str | None,
    bug: str | None,
    *,
    only_faults: Sequence[int] | None = None,
    keep_trace: bool = False,
) -> Result:
    with install_bug(BUGS[bug] if bug else None):
        return run_seed(seed, scenario_of(seed, scenario_name, bug), only_faults=only_faults, keep_trace=keep_trace)


# ---- one seed


def _repeat(options: argparse.Namespace) -> int:
    faults = None
    if options.faults is not None:
        faults = [] if options.faults == "none" else [int(place) for place in options.faults.split(",")]
    result = run_one(options.seed, options.scenario, options.plant, only_faults=faults, keep_trace=True)
    if options.trace:
        for event in result.events:
            print(event)
    print(f"seed {result.seed}, {result.scenario}: {'passed' if result.passed else 'FAILED'}")
    print("\n".join(describe(result, faults)))
    print(f"trace {result.trace_hash}, {result.simulated_seconds:.1f} simulated seconds")
    return EXIT_OK if result.passed else EXIT_FAILED


# ---- many seeds


def _explore(options: argparse.Namespace) -> int:
    seeds = range(options.first, options.first + options.seeds)
    began = time.perf_counter()
    simulated_seconds = 0.0
    done = 0
    failed: list[Result] = []
    with _progress(options.seeds) as advance:
        for result in _results(seeds, options):
            done += 1
            simulated_seconds += result.simulated_seconds
            seconds = time.perf_counter() - began
            if not result.passed:
                failed.append(result)
                print(f"seed {result.seed}, {result.scenario}: {result.violations[0]}".splitlines()[0], flush=True)
            if options.hashes:
                print(result.seed, result.trace_hash, flush=True)
            pace = f"{done / seconds:.1f} seeds/s, {simulated_seconds / seconds:.0f} simulated s/s"
            advance(f"{pace}, {len(failed)} failed")
            if failed and not options.keep_going:
                break
    print(f"{done} seeds in {time.perf_counter() - began:.1f} s: {pace}, {len(failed)} failed")
    if not failed:
        return EXIT_OK
    _explain(min(failed, key=lambda result: result.seed), options)
    return EXIT_FAILED


def _results(seeds: Sequence[int], options: argparse.Namespace) -> Iterator[Result]:
    """Results in the order of completion; seeds start in order. Raises RunBroke."""
    run = partial(run_one, scenario_name=options.scenario, bug=options.plant)
    if options.jobs <= 1:
        for seed in seeds:
            with _add_seed_to_errors(seed, options):
                result = run(seed)
            yield result
        return
    waiting = iter(seeds)
    with ProcessPoolExecutor(options.jobs) as pool:
        running: dict[Future[Result], int] = {}
        try:
            while True:
                for seed in islice(waiting, options.jobs * 2 - len(running)):
                    running[pool.submit(run, seed)] = seed
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    with _add_seed_to_errors(running.pop(future), options):
                        result = future.result()
                    yield result
        finally:
            pool.shutdown(cancel_futures=True)


class RunBroke(Exception):
    """The simulator itself failed, not the node: there is no result."""


@contextmanager
def _add_seed_to_errors(seed: int, options: argparse.Namespace) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        scenario = scenario_of(seed, options.scenario, options.plant)
        again = replay_command(seed, scenario.name, None, options.plant)
        raise RunBroke(f"seed {seed} cannot be run: {type(error).__name__}: {error}\nagain:  {again}") from error


def _explain(result: Result, options: argparse.Namespace) -> None:
    def run(faults: Sequence[int]) -> Result:
        return run_one(result.seed, result.scenario, options.plant, only_faults=faults)

    print(f"\nseed {result.seed} with fewer faults …", flush=True)
    kept, runs = shrink(result, run)
    again = run_one(result.seed, result.scenario, options.plant, only_faults=kept, keep_trace=True)
    print(f"{len(kept)} of {len(result.faults)} faults reproduce it ({runs} runs)")
    print("\n".join(describe(again, kept)))
    print(f"again:  {replay_command(result.seed, result.scenario, kept, options.plant)}")
    print(f"whole:  {replay_command(result.seed, result.scenario, None, options.plant)}")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str], None]]:
    """A progress bar on a terminal, otherwise a line every few seconds."""
    if not sys.stderr.isatty():
        yield _lines(total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda text: bar.update(task, advance=1, description=text)


def _lines(total: int) -> Callable[[str], None]:
    count = 0
    last = time.perf_counter()

    def advance(text: str) -> None:
        nonlocal count, last
        count += 1
        if time.perf_counter() - last > _REPORT_SECONDS:
            last = time.perf_counter()
            print(f"{count}/{total}: {text}", file=sys.stderr, flush=True)

    return advance


if __name__ == "__main__":
    sys.exit(main())

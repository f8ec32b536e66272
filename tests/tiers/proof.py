"""`make proof`: every test, the long runs, and a report of them in proof-report.md. It takes two to three hours.

Steps run one after the other, each with its output in proof-logs/. A step that fails does not stop the others. A step
that passed at the same commit before does not run again, so an interrupted proof continues where it stopped. The long
runs are as long as fits into that time; `make sim`, `make chaos` and the others run longer.
"""

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.tiers.summary import Summary, read_summary

REPORT: Final = Path("proof-report.md")
LOGS: Final = Path("proof-logs")
TAIL_LINES: Final = 15
UNKNOWN: Final = "unknown"
PYTHON: Final = (sys.executable, "-m")


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    shows: str
    command: Sequence[str]
    environment: tuple[tuple[str, str], ...] = ()
    is_pytest: bool = False


def _pytest(*arguments: str) -> tuple[str, ...]:
    return (*PYTHON, "pytest", *arguments)


STEPS: Final = (
    Step(
        "suite",
        "every test, with 2 minutes of chaos, 100 kills of a broker, 100,000 damaged requests, 100,000 hostile logins",
        _pytest("--tier", "proof", "--numprocesses", "4", "--rerun-failed"),
        (
            ("ODRADEK_CHAOS_SECONDS", "120"),
            ("ODRADEK_KILL_CYCLES", "100"),
            ("ODRADEK_FUZZ_REQUESTS", "100000"),
            ("ODRADEK_FUZZ_LOGINS", "100000"),
        ),
        is_pytest=True,
    ),
    Step(
        "reference",
        "Apache Kafka passes the tests of clients and tools, run against it in Odradek's place",
        _pytest("--reference", "-m", "reference", "--rerun-failed"),
        is_pytest=True,
    ),
    Step("pythons", "`make test-fast` with every supported Python", ("make", "test-pythons")),
    Step("raft", "2,000 seeds of the raft simulation", (*PYTHON, "tests.raft", "seeds", "2000")),
    Step("replication", "5,000 seeds of the replication simulation", (*PYTHON, "tests.replication", "seeds", "5000")),
    Step(
        "sim",
        "500 seeds of whole nodes on a simulated machine, from seed 0 on",
        (*PYTHON, "odradek.sim", "--seeds", "500", "--keep-going"),
    ),
    Step("planted", "every planted bug is found within 500 seeds", (*PYTHON, "tests.sim", "--no-write")),
    Step("chaos", "10 minutes of chaos testing, seed 1", (*PYTHON, "tests.chaos", "--minutes", "10", "--seed", "1")),
    Step("kills", "200 nodes killed by SIGKILL, seed 1", (*PYTHON, "tests.chaos", "--kills", "200", "--seed", "1")),
    Step("controller-kills", "100 kills of the active controller", ("make", "chaos", "CONTROLLER_KILLS=100")),
    Step("exactly-once", "100,000 records copied in transactions, in every combination", ("make", "exactly-once")),
    Step("spark-kills", "Spark writes exactly once while processes are killed", ("make", "spark-kills")),
    Step("console", "the console with 10,000 topics and groups", ("make", "bench-console")),
    Step("slow", "tests of processes and sockets on an artificially slow computer", ("make", "test-slow")),
)


@dataclass(frozen=True, slots=True)
class Result:
    step: Step
    status: int
    seconds: float
    log: Path
    summary: Summary | None = None

    @property
    def passed(self) -> bool:
        return self.status == 0


class Results:
    """The results of the steps at one commit, kept in files."""

    def __init__(self, logs: Path, commit: str) -> None:
        self._logs: Final = logs
        self._commit: Final = commit

    def save(self, result: Result) -> None:
        kept = {"commit": self._commit, "status": result.status, "seconds": result.seconds}
        self._file(result.step).write_text(json.dumps(kept))

    def load(self) -> list[Result]:
        """In the order of the steps. Nothing is known about a working tree with changes."""
        if self._commit.endswith(("dirty", UNKNOWN)):
            return []
        return [result for step in STEPS if (result := self._load(step)) is not None]

    def _load(self, step: Step) -> Result | None:
        file = self._file(step)
        kept = json.loads(file.read_text()) if file.exists() else {}
        if kept.get("commit") != self._commit:
            return None
        return Result(step, kept["status"], kept["seconds"], *_output_of(step, self._logs))

    def _file(self, step: Step) -> Path:
        return self._logs / f"{step.name}.result.json"


def _output_of(step: Step, logs: Path) -> tuple[Path, Summary | None]:
    summary = logs / f"{step.name}.json"
    return logs / f"{step.name}.log", read_summary(summary) if summary.exists() else None


def choose(names: str) -> list[Step]:
    """The steps of a list such as `sim,chaos`; all of them if it is empty. Raises SystemExit for an unknown name."""
    wanted = [name for name in names.replace(",", " ").split() if name]
    known = {step.name: step for step in STEPS}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise SystemExit(f"unknown step {unknown[0]!r}: choose from {', '.join(known)}")
    return [step for step in STEPS if not wanted or step.name in wanted]


def run_step(step: Step, logs: Path) -> Result:
    logs.mkdir(parents=True, exist_ok=True)
    log, summary = logs / f"{step.name}.log", logs / f"{step.name}.json"
    summary.unlink(missing_ok=True)
    command = [*step.command, *((f"--summary-file={summary}",) if step.is_pytest else ())]
    start = time.monotonic()
    with log.open("w") as output:
        status = subprocess.run(
            command,
            env=os.environ | dict(step.environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    return Result(step, status, time.monotonic() - start, *_output_of(step, logs))


def report(results: Sequence[Result], started_at: datetime) -> str:
    failed = [result.step.name for result in results if not result.passed]
    lines = [
        "# Proof report",
        "",
        f"Commit {find_commit()}, started {started_at:%Y-%m-%d %H:%M} UTC, Python {platform.python_version()}, "
        f"{os.cpu_count()} processors.",
        f"{len(results) - len(failed)} of {len(results)} steps passed"
        + (f"; failed: {', '.join(failed)}." if failed else "."),
        *_left_out({result.step.name for result in results}),
        "",
        "| step | shows | result | tests | minutes |",
        "|---|---|---|---|---|",
        *(_row(result) for result in results),
    ]
    for result in results:
        lines += _details(result)
    return "\n".join(lines) + "\n"


def _left_out(ran: set[str]) -> list[str]:
    names = [step.name for step in STEPS if step.name not in ran]
    return [f"Not run: {', '.join(names)}."] if names else []


def _row(result: Result) -> str:
    counts = result.summary.counts if result.summary else {}
    tests = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items())
    outcome = "passed" if result.passed else f"**failed** (exit status {result.status})"
    return f"| {result.step.name} | {result.step.shows} | {outcome} | {tests} | {result.seconds / 60:.1f} |"


def _details(result: Result) -> list[str]:
    lines = ["", f"## {result.step.name}", "", f"    {shlex.join(result.step.command)}", ""]
    summary = result.summary
    if summary is None:
        return [*lines, *_block(result.log.read_text(errors="replace").splitlines()[-TAIL_LINES:])]
    lines += ["| folder | tests |", "|---|---|"]
    lines += [f"| {folder or '.'} | {count:,} |" for folder, count in summary.folders.items()]
    lines += _section("Failed", (f"- `{test}`" for test in summary.failed))
    lines += _section("Flaky", (f"- `{test}`: {_last_line(text)}" for test, text in summary.flaky.items()))
    lines += _section("Skipped", (f"- `{test}`: {reason}" for test, reason in summary.skipped.items()))
    lines += _section("Slowest", (f"- {seconds:.1f} s `{test}`" for seconds, test in summary.slowest))
    return lines


def _section(title: str, lines: Iterable[str]) -> list[str]:
    found = list(lines)
    return ["", f"{title}: {len(found)}", *(["", *found] if found else [])]


def _block(lines: Iterable[str]) -> list[str]:
    return ["```", *(line.rsplit("\r", 1)[-1] for line in lines), "```"]


def _last_line(text: str) -> str:
    """The error, which pytest marks with an E."""
    errors = [line.removeprefix("E").strip() for line in text.splitlines() if line.startswith("E ")]
    return errors[0] if errors else next(iter(text.splitlines()), "")


def find_commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip() or UNKNOWN


def main() -> int:
    parser = argparse.ArgumentParser(prog="make proof", description=__doc__)
    parser.add_argument("--only", default="", help=f"some steps, as sim,chaos: {', '.join(s.name for s in STEPS)}")
    parser.add_argument("--again", action="store_true", help="also run steps that passed at this commit before")
    parser.add_argument("--list", action="store_true", help="list the steps")
    options = parser.parse_args()
    steps = choose(options.only)
    if options.list:
        for step in steps:
            print(f"{step.name:18} {step.shows}")
        return 0
    started_at = datetime.now(UTC)
    kept = Results(LOGS, find_commit())
    earlier = {result.step.name: result for result in kept.load()}
    if options.again:
        earlier = {name: result for name, result in earlier.items() if name not in {step.name for step in steps}}
    results = dict(earlier)
    for step in steps:
        if step.name in earlier and earlier[step.name].passed:
            print(f"{step.name}: passed before, at this commit")
            continue
        print(f"{step.name}: {step.shows}; output in {LOGS / step.name}.log", flush=True)
        results[step.name] = result = run_step(step, LOGS)
        kept.save(result)
        print(
            f"{step.name}: {'passed' if result.passed else 'FAILED'} after {result.seconds / 60:.1f} minutes",
            flush=True,
        )
        # After each step: a run that is interrupted leaves the report of what it did.
        REPORT.write_text(report(_in_order(results), started_at))
    REPORT.write_text(report(_in_order(results), started_at))
    print(f"report: {REPORT}")
    return 0 if all(result.passed for result in results.values()) else 1


def _in_order(results: dict[str, Result]) -> list[Result]:
    return [results[step.name] for step in STEPS if step.name in results]


if __name__ == "__main__":
    sys.exit(main())

"""Runs failed tests once more, alone, at the end of a run: a busy machine can fail a test of processes or sockets.

A test that passes the second time is flaky: the run succeeds, and its summary shows the first failure. More than
FLAKY_MAX flaky tests fail the run. Tests that only compute are never rerun: there, a failure is a failure.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.tiers.folders import is_deterministic
from tests.tiers.summary import Summary, read_summary

FLAKY_MAX: Final = 3
RERUNS_MAX: Final = 10
"""With more failures than that something is broken, and rerunning all of them would only take time."""
FLAKY: Final = "flaky"
_FAILED: Final = ("failed", "error")
_OUTPUT_CHARACTERS: Final = 20_000


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rerun-failed", action="store_true", help="run failed tests of processes and sockets once more")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--rerun-failed") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reruns(config), "odradek-reruns")


class Reruns:
    def __init__(self, config: pytest.Config) -> None:
        self._config: Final = config
        self._flaky: Final[dict[str, pytest.TestReport]] = {}
        """Test -> its first failure."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Iterator[None]:
        result = yield
        failures = self._failures()
        candidates = [nodeid for nodeid in failures if not is_deterministic(nodeid)]
        if candidates and len(candidates) <= RERUNS_MAX:
            self._rerun(candidates, failures)
        if len(self._flaky) <= FLAKY_MAX:
            session.testsfailed -= self._forgive()
        return result

    @property
    def _reporter(self) -> Any:
        return self._config.pluginmanager.getplugin("terminalreporter")

    def _failures(self) -> dict[str, list[pytest.TestReport]]:
        found: dict[str, list[pytest.TestReport]] = {}
        for category in _FAILED:
            for report in self._reporter.stats.get(category, ()):
                if isinstance(report, pytest.TestReport):
                    found.setdefault(report.nodeid, []).append(report)
        return found

    def _rerun(self, candidates: Sequence[str], failures: dict[str, list[pytest.TestReport]]) -> None:
        self._reporter.write("\n")
        for nodeid in candidates:
            passed, output = self._run_alone(nodeid)
            self._reporter.write_line(f"{nodeid} ran again, alone: {'passed' if passed else 'failed'}")
            if passed:
                self._flaky[nodeid] = failures[nodeid][0]
            else:
                failures[nodeid][-1].sections.append(("second run, alone", output[-_OUTPUT_CHARACTERS:]))

    def _run_alone(self, nodeid: str) -> tuple[bool, str]:
        with tempfile.TemporaryDirectory() as directory:
            summary = Path(directory, "summary.json")
            command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "--durations=0", f"--summary-file={summary}"]
            if self._config.getoption("--reference", default=False):
                command.append("--reference")
            result = subprocess.run(
                [*command, nodeid],
                cwd=self._config.rootpath,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                text=True,
                errors="replace",
                check=False,
            )
            counts = read_summary(summary).counts if summary.exists() else {}
        return result.returncode == 0 and set(counts) == {"passed"}, result.stdout

    def _forgive(self) -> int:
        """Counts flaky tests as passed. Returns the number of failures that count no more."""
        stats, forgiven = self._reporter.stats, 0
        for category in _FAILED:
            reports = stats.pop(category, [])
            kept = [report for report in reports if getattr(report, "nodeid", None) not in self._flaky]
            forgiven += len(reports) - len(kept)
            if kept:
                stats[category] = kept
        already = {report.nodeid for report in stats.get("passed", ())}
        for nodeid, first in self._flaky.items():
            # A test that fails in its teardown has passed before.
            if nodeid not in already:
                self._reporter._add_stats("passed", [_as_passed(first)])
            self._reporter._add_stats(FLAKY, [first])
        self._reporter._set_main_color()
        return forgiven

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._flaky:
            return
        terminalreporter.section(FLAKY)
        for nodeid, first in self._flaky.items():
            terminalreporter.write_line(f"{nodeid} failed, then passed alone. The first failure, in its {first.when}:")
            terminalreporter.write_line(first.longreprtext)
        if len(self._flaky) > FLAKY_MAX:
            allowed = f"{len(self._flaky)} flaky tests fail the run: at most {FLAKY_MAX} are allowed"
            terminalreporter.write_line(allowed, red=True)

    def pytest_odradek_summary(self, summary: Summary) -> None:
        summary.flaky.update({nodeid: first.longreprtext for nodeid, first in self._flaky.items()})


def _as_passed(first: pytest.TestReport) -> pytest.TestReport:
    return pytest.TestReport(first.nodeid, first.location, {}, "passed", None, "call", duration=first.duration)

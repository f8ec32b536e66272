"""What a run of pytest writes for the programs that started it: counts, failures, flaky tests, measurements."""

import json
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.tiers.folders import folder_of

OUTCOMES: Final = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")


@dataclass(slots=True)
class Summary:
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    """Outcome -> number of tests; outcomes that no test had are left out."""
    folders: dict[str, int] = field(default_factory=dict)
    """Folder below tests/ -> number of tests that ran there."""
    failed: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """Test -> reason."""
    flaky: dict[str, str] = field(default_factory=dict)
    """Test -> the text of its first failure."""
    slowest: list[tuple[float, str]] = field(default_factory=list)


class Hooks:
    @pytest.hookspec
    def pytest_odradek_summary(self, summary: Summary) -> None:
        """Lets plugins add to the summary before it is written."""


def read_summary(file: Path) -> Summary:
    return Summary(**json.loads(file.read_text()))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--summary-file", type=Path, help="write counts, failures and flaky tests as JSON to this file")


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(Hooks)


_began: Final = pytest.StashKey[float]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_began] = time.monotonic()


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    file: Path | None = config.getoption("--summary-file")
    if file is not None:
        summary = summarize(terminalreporter, time.monotonic() - config.stash[_began])
        config.hook.pytest_odradek_summary(summary=summary)
        file.write_text(json.dumps(asdict(summary), indent=1))


SLOWEST: Final = 20


def summarize(reporter: pytest.TerminalReporter, seconds: float) -> Summary:
    summary = Summary(seconds=seconds)
    folders: Counter[str] = Counter()
    durations: Counter[str] = Counter()
    for outcome in OUTCOMES:
        reports = reporter.getreports(outcome)
        if reports:
            summary.counts[outcome] = len(reports)
        for report in reports:
            folders[folder_of(report.nodeid)] += outcome != "error"
            if outcome in ("failed", "error"):
                summary.failed.append(report.nodeid)
            if outcome == "skipped" and isinstance(report.longrepr, tuple):
                summary.skipped[report.nodeid] = report.longrepr[2]
    for reports in reporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                durations[report.nodeid] += report.duration
    summary.folders = dict(sorted(folders.items()))
    summary.slowest = [(round(taken, 2), nodeid) for nodeid, taken in durations.most_common(SLOWEST)]
    return summary

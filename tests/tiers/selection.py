"""Which tests a run contains: `--tier fast`, `--tier test` or, the default, `--tier proof`.

Each tier contains the ones before it, so every test runs in `make proof`. A test belongs to the tier of its folder,
unless `pytest.mark.tier` or `pytest.mark.needs` puts it into a later one. A test that belongs to no tier ends the run.
"""

import re
from pathlib import Path
from typing import Any, Final

import pytest

from tests.tiers.folders import FOLDERS, folder_of

TIERS: Final = ("fast", "test", "proof")


_LATER: Final = re.compile(r'^pytestmark = .*\bpytest\.mark\.(needs\(|tier\("(test|proof)"\))', re.MULTILINE)
_OUTPUT: Final = "tests of later tiers"


class LeftOut:
    """What belongs to a later tier than the chosen one."""

    def __init__(self) -> None:
        self.tests = 0
        self.modules = 0


_left_out: Final = pytest.StashKey[LeftOut]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=TIERS, default="proof", help="run the tests of this tier and of those before it")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", 'tier(name): the earliest tier that runs the test: "fast", "test" or "proof"')
    config.addinivalue_line("markers", "needs(package): a package that the extra [dev] does not install")
    config.stash[_left_out] = LeftOut()


def tier_of(item: pytest.Item) -> str:
    """Raises UsageError if the test belongs to no tier."""
    folder = FOLDERS.get(folder_of(item.nodeid))
    if folder is None:
        raise pytest.UsageError(f"{item.nodeid} belongs to no tier: add its folder to tests/tiers/folders.py")
    tier = _marked_tier(item) or folder.tier
    return max(tier, "test", key=TIERS.index) if item.get_closest_marker("needs") else tier


def _marked_tier(item: pytest.Item) -> str | None:
    """Marks of a test and of its parameters count before those of its class and module."""
    for node in reversed(item.listchain()):
        names = [mark.args[0] for mark in node.own_markers if mark.name == "tier"]
        for name in names:
            if name not in TIERS:
                raise pytest.UsageError(f"{item.nodeid} has the unknown tier {name!r}: use one of {', '.join(TIERS)}")
        if names:
            return max(names, key=TIERS.index)
    return None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """In the fast tier, does not even import what belongs to a later one: the imports would fail."""
    tests = config.rootpath / "tests"
    if config.getoption("--tier") != "fast" or tests not in collection_path.parents:
        return None
    folder = FOLDERS.get(collection_path.relative_to(tests).parts[0])
    if folder is not None and folder.tier != "fast":
        return True
    if collection_path.match("test_*.py") and _LATER.search(collection_path.read_text()):
        config.stash[_left_out].modules += 1
        return True
    return None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = TIERS.index(config.getoption("--tier"))
    later = [item for item in items if TIERS.index(tier_of(item)) > chosen]
    if later:
        left_out = set(later)
        items[:] = [item for item in items if item not in left_out]
        config.stash[_left_out].tests += len(later)
        config.hook.pytest_deselected(items=later)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_OUTPUT] = vars(session.config.stash[_left_out])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    # Every worker collects all tests, so any one of them knows the numbers.
    vars(node.config.stash[_left_out]).update(getattr(node, "workeroutput", {}).get(_OUTPUT, {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    left_out, tier = config.stash[_left_out], config.getoption("--tier")
    if left_out.tests or left_out.modules:
        modules = f" and {left_out.modules} modules" if left_out.modules else ""
        terminalreporter.write_line(f"tier {tier}: {left_out.tests} tests{modules} run only in a later tier")

"""Every test belongs to exactly one tier, and each tier runs the tests of those before it."""

import os
from pathlib import Path

import pytest

from tests.tiers.folders import FOLDERS, folder_of

TESTS = Path(__file__).parent.parent
PLUGINS = 'pytest_plugins = ["tests.tiers.selection", "tests.tiers.summary", "tests.tiers.flaky"]'

MODULE = """
import pytest

def test_default(): pass

@pytest.mark.tier("test")
def test_slow(): pass

@pytest.mark.tier("proof")
def test_long(): pass

@pytest.mark.needs("numba")
def test_compiled(): pass

@pytest.mark.parametrize("seeds", [5, pytest.param(100, marks=pytest.mark.tier("proof"))])
def test_seeds(seeds): pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.syspath_prepend(TESTS.parent)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(TESTS.parent), prepend=os.pathsep)
    pytester.makeconftest(PLUGINS)
    return pytester


def write(suite: pytest.Pytester, path: str, text: str) -> None:
    file = suite.path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def names(suite: pytest.Pytester, *arguments: str) -> set[str]:
    result = suite.runpytest_inprocess("--collect-only", "--quiet", *arguments)
    return {line.split("::")[1] for line in result.outlines if "::" in line}


def test_each_tier_contains_the_tiers_before_it(suite: pytest.Pytester) -> None:
    write(suite, "tests/unit/test_one.py", MODULE)
    fast = {"test_default", "test_seeds[5]"}
    assert names(suite, "--tier", "fast") == fast
    assert names(suite, "--tier", "test") == fast | {"test_slow", "test_compiled"}
    assert names(suite) == fast | {"test_slow", "test_compiled", "test_long", "test_seeds[100]"}


def test_folders_of_processes_are_not_fast(suite: pytest.Pytester) -> None:
    write(suite, "tests/wire/test_one.py", MODULE)
    assert names(suite, "--tier", "fast") == set()
    assert names(suite, "--tier", "test") == {"test_default", "test_slow", "test_compiled", "test_seeds[5]"}


def test_a_mark_of_a_test_counts_before_that_of_its_module(suite: pytest.Pytester) -> None:
    module = 'import pytest\npytestmark = pytest.mark.tier("proof")\n\ndef test_long(): pass\n\n'
    write(suite, "tests/cluster/test_one.py", module + '@pytest.mark.tier("test")\ndef test_short(): pass\n')
    assert names(suite, "--tier", "test") == {"test_short"}


def test_the_number_of_left_out_tests_is_reported(suite: pytest.Pytester) -> None:
    write(suite, "tests/unit/test_one.py", MODULE)
    result = suite.runpytest_inprocess("--tier", "fast")
    result.stdout.fnmatch_lines(["tier fast: 4 tests run only in a later tier"])
    result.assert_outcomes(passed=2, deselected=4)


def test_a_test_without_a_tier_ends_the_run(suite: pytest.Pytester) -> None:
    write(suite, "tests/novelty/test_one.py", "def test_one(): pass")
    result = suite.runpytest_inprocess("-p", "no:xdist")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*tests/novelty/test_one.py::test_one belongs to no tier*"])


def test_an_unknown_tier_ends_the_run(suite: pytest.Pytester) -> None:
    write(suite, "tests/unit/test_one.py", 'import pytest\n@pytest.mark.tier("quick")\ndef test_one(): pass')
    result = suite.runpytest_inprocess("-p", "no:xdist")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*unknown tier 'quick'*"])


def test_every_folder_with_tests_has_a_tier() -> None:
    with_tests = {folder_of(str(file.relative_to(TESTS.parent))) for file in TESTS.rglob("test_*.py")}
    assert with_tests == set(FOLDERS)

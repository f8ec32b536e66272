"""A test of processes that fails once and passes alone leaves the run green; a unit test that fails never does."""

import pytest

from tests.tiers.summary import read_summary
from tests.tiers.test_selection import suite, write

__all__ = ["suite"]

# Every test here starts two or more processes of pytest.
pytestmark = pytest.mark.tier("test")

FAILS_ONCE = """
from pathlib import Path

def test_fails_once():
    seen = Path(__file__).with_suffix(".seen")
    if not seen.exists():
        seen.touch()
        raise AssertionError("the broker did not start")

def test_passes():
    pass
"""
ALWAYS_FAILS = "def test_always_fails(): assert 'first' == 'second'\n"
TEARDOWN_FAILS_ONCE = """
from pathlib import Path
import pytest

@pytest.fixture
def broker():
    yield
    seen = Path(__file__).with_suffix(".seen")
    if not seen.exists():
        seen.touch()
        raise AssertionError("the broker did not stop")

def test_broker(broker):
    pass
"""
WORKERS = pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")], ids=["one process", "two workers"])


def run(suite: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return suite.runpytest_subprocess("--rerun-failed", "--summary-file", "summary.json", *arguments)


@WORKERS
def test_a_test_that_fails_once_is_flaky_and_the_run_is_green(suite: pytest.Pytester, workers: tuple[str, ...]) -> None:
    write(suite, "tests/wire/test_one.py", FAILS_ONCE)
    result = run(suite, *workers)
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "tests/wire/test_one.py::test_fails_once ran again, alone: passed",
            "*= flaky =*",
            "tests/wire/test_one.py::test_fails_once failed, then passed alone*",
            "*the broker did not start",
            "*2 passed, 1 flaky in *",
        ]
    )
    summary = read_summary(suite.path / "summary.json")
    assert summary.counts == {"passed": 2}
    assert "the broker did not start" in summary.flaky["tests/wire/test_one.py::test_fails_once"]


@WORKERS
def test_a_unit_test_is_not_rerun(suite: pytest.Pytester, workers: tuple[str, ...]) -> None:
    write(suite, "tests/unit/test_one.py", FAILS_ONCE)
    result = run(suite, *workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.no_fnmatch_line("*ran again*")


def test_a_test_that_fails_twice_fails_the_run(suite: pytest.Pytester) -> None:
    write(suite, "tests/wire/test_one.py", FAILS_ONCE)
    write(suite, "tests/wire/test_two.py", ALWAYS_FAILS)
    result = run(suite)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*second run, alone*", "*1 failed, 2 passed, 1 flaky in *"])
    assert read_summary(suite.path / "summary.json").failed == ["tests/wire/test_two.py::test_always_fails"]


def test_four_flaky_tests_fail_the_run(suite: pytest.Pytester) -> None:
    for number in range(4):
        write(suite, f"tests/wire/test_{number}.py", FAILS_ONCE)
    result = run(suite)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=4, failed=4)
    result.stdout.fnmatch_lines(["*= flaky =*", "4 flaky tests fail the run: at most 3 are allowed"])
    assert len(read_summary(suite.path / "summary.json").flaky) == 4


@pytest.mark.tier("proof")
def test_three_flaky_tests_are_allowed(suite: pytest.Pytester) -> None:
    for number in range(3):
        write(suite, f"tests/wire/test_{number}.py", FAILS_ONCE)
    result = run(suite)
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=6)


def test_a_teardown_that_fails_once_is_flaky(suite: pytest.Pytester) -> None:
    write(suite, "tests/cluster/test_one.py", TEARDOWN_FAILS_ONCE)
    result = run(suite)
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*= flaky =*", "*the broker did not stop"])


def test_a_test_that_is_skipped_the_second_time_has_not_passed(suite: pytest.Pytester) -> None:
    skips = FAILS_ONCE.replace("def test_fails_once():", "import pytest\n\ndef test_fails_once():")
    skips = skips.replace("    if not seen.exists():", "    if seen.exists():\n        pytest.skip()\n    else:")
    write(suite, "tests/wire/test_one.py", skips)
    result = run(suite)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, failed=1)


def test_without_the_option_nothing_is_rerun(suite: pytest.Pytester) -> None:
    write(suite, "tests/wire/test_one.py", FAILS_ONCE)
    result = suite.runpytest_subprocess()
    result.assert_outcomes(passed=1, failed=1)

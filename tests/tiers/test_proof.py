"""The steps of `make proof`: which of them run, that a failure stops none of the others, and what the report says."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.tiers import proof
from tests.tiers.proof import STEPS, Result, Step, choose, report, run_step
from tests.tiers.summary import Summary

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def python_step(name: str, code: str) -> Step:
    return Step(name, f"what {name} shows", (sys.executable, "-c", code))


def test_all_steps_run_unless_some_are_chosen() -> None:
    assert choose("") == list(STEPS)
    assert [step.name for step in choose("chaos,sim")] == ["sim", "chaos"]


def test_an_unknown_step_is_named() -> None:
    with pytest.raises(SystemExit, match=r"unknown step 'seeds': choose from suite, reference"):
        choose("seeds")


def test_a_failed_step_does_not_stop_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = (python_step("first", "print('boom'); raise SystemExit(3)"), python_step("second", "print('fine')"))
    monkeypatch.setattr(proof, "STEPS", steps)
    monkeypatch.setattr(sys, "argv", ["make proof"])
    monkeypatch.chdir(tmp_path)
    assert proof.main() == 1
    text = (tmp_path / "proof-report.md").read_text()
    assert "1 of 2 steps passed; failed: first." in text
    assert "boom" in text
    assert "fine" in text
    assert "second: passed" in capsys.readouterr().out


def test_the_exit_status_is_zero_if_all_steps_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "STEPS", (python_step("only", "pass"), python_step("other", "raise SystemExit(1)")))
    monkeypatch.setattr(sys, "argv", ["make proof", "--only", "only"])
    monkeypatch.chdir(tmp_path)
    assert proof.main() == 0
    assert "Not run: other." in (tmp_path / "proof-report.md").read_text()


def run_proof(monkeypatch: pytest.MonkeyPatch, commit: str, *arguments: str) -> int:
    monkeypatch.setattr(proof, "find_commit", lambda: commit)
    monkeypatch.setattr(sys, "argv", ["make proof", *arguments])
    return proof.main()


def test_a_step_that_passed_at_this_commit_does_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = "file = open('{0}', 'a'); file.write('x'); file.close()"
    steps = (
        python_step("good", count.format("good")),
        python_step("bad", count.format("bad") + "; raise SystemExit(1)"),
    )
    monkeypatch.setattr(proof, "STEPS", steps)
    monkeypatch.chdir(tmp_path)
    for commit, arguments, status, good, bad in (
        ("a", ("--only", "good"), 0, "x", ""),
        ("a", (), 1, "x", "x"),
        ("a", ("--only", "bad"), 1, "x", "xx"),
        ("a", ("--only", "good", "--again"), 1, "xx", "xx"),
        ("b", ("--only", "good"), 0, "xxx", "xx"),
        ("b-dirty", ("--only", "good"), 0, "xxxx", "xx"),
        ("b-dirty", ("--only", "good"), 0, "xxxxx", "xx"),
    ):
        assert run_proof(monkeypatch, commit, *arguments) == status
        assert [Path(name).read_text() if Path(name).exists() else "" for name in ("good", "bad")] == [good, bad]
    assert "1 of 1 steps passed" in (tmp_path / "proof-report.md").read_text()


def test_the_report_lists_counts_failures_and_flaky_tests(tmp_path: Path) -> None:
    summary = Summary(
        seconds=90.0,
        counts={"passed": 1200, "failed": 1},
        folders={"unit": 1199, "wire": 2},
        failed=["tests/unit/test_a.py::test_b"],
        flaky={"tests/wire/test_c.py::test_d": "def test_d():\n>   fail\nE   AssertionError: no broker\n"},
        slowest=[(4.25, "tests/wire/test_c.py::test_d")],
    )
    text = report([Result(STEPS[0], 1, 90.0, tmp_path / "log", summary)], NOW)
    assert "| 1,200 passed, 1 failed | 1.5 |" in text
    assert "| unit | 1,199 |" in text
    assert "Failed: 1\n\n- `tests/unit/test_a.py::test_b`" in text
    assert "Flaky: 1\n\n- `tests/wire/test_c.py::test_d`: AssertionError: no broker" in text
    assert "Skipped: 0" in text


def test_a_step_runs_with_its_environment(tmp_path: Path) -> None:
    code = "import os; print(os.environ['LENGTH'])"
    step = Step("one", "", (sys.executable, "-c", code), (("LENGTH", "short"),))
    result = run_step(step, tmp_path / "logs")
    assert result.passed
    assert result.log.read_text() == "short\n"


def test_the_suite_leaves_out_no_test() -> None:
    """Every test runs in `make proof`: the suite chooses the last tier, and the reference runs what it leaves out."""
    suite, reference = STEPS[:2]
    assert suite.command[1:5] == ("-m", "pytest", "--tier", "proof")
    assert not {"-k", "-m", "--ignore", "--deselect"} & set(suite.command[3:])
    assert reference.command[1:] == ("-m", "pytest", "--reference", "-m", "reference", "--rerun-failed")

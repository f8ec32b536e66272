"""Every supported Python is tested, and one that is missing is never passed over in silence."""

import sys

import pytest

from tests.tiers.pythons import find_python, run

HERE = "{}.{}".format(*sys.version_info)


def only_here(version: str) -> str | None:
    return sys.executable if version == HERE else None


@pytest.fixture(autouse=True)
def no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)


def test_this_python_is_found() -> None:
    assert find_python(HERE) is not None
    assert find_python("2.9") is None


def test_a_missing_python_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([HERE, "2.9"], only_here, lambda *_: True) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [f"Python {HERE}: passed", "Python 2.9: not installed"]


def test_a_missing_python_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    assert run([HERE, "2.9"], only_here, lambda *_: True) == 1
    assert run([HERE], only_here, lambda *_: True) == 0


def test_nothing_tested_is_a_failure() -> None:
    assert run(["2.9"], only_here, lambda *_: True) == 1


def test_a_failed_python_does_not_stop_the_next(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["1.0", "1.1"], lambda _: "python", lambda version, _: version == "1.1") == 1
    assert capsys.readouterr().out.splitlines()[-2:] == ["Python 1.0: failed", "Python 1.1: passed"]

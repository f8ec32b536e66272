"""`make flaky` repeats a test until it fails, but not forever."""

import pytest

from tests.tiers.repeat import repeat
from tests.tiers.test_selection import suite, write

__all__ = ["suite"]

# Every run is a process of pytest.
pytestmark = pytest.mark.tier("proof")

FAILS_THE_THIRD_TIME = """
from pathlib import Path

def test_one():
    runs = Path(__file__).with_suffix(".runs")
    with runs.open("a") as file:
        file.write(".")
    assert len(runs.read_text()) < 3
"""


def test_repetition_stops_at_the_first_failure(suite: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    write(suite, "tests/wire/test_one.py", FAILS_THE_THIRD_TIME)
    assert repeat(["tests/wire/test_one.py"], 5) == 3
    output = capsys.readouterr().out
    assert "run 2 of 5 passed" in output
    assert "1 failed" in output


def test_repetition_is_bounded(suite: pytest.Pytester) -> None:
    write(suite, "tests/wire/test_one.py", FAILS_THE_THIRD_TIME)
    assert repeat(["tests/wire/test_one.py"], 2) == 0

"""Java, and what Spark says when something fails, in one line."""

import pytest

from odradek.jobs.java import major_version
from odradek.jobs.session import spark_line


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21"', 21),
        ("", None),
    ],
)
def test_javas_version(answer: str, version: int | None) -> None:
    assert major_version(answer) == version


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[TABLE_NOT_FOUND] There is none.\n== SQL ==\nx", "Spark failed: [TABLE_NOT_FOUND] There is none."),
        (
            '[PYTHON] failed: Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n    raise x\n'
            "odradek.spark.errors.DataLoss: offset 5 is gone: set it\n\tat org.apache.spark\n",
            "offset 5 is gone: set it",
        ),
        ("Traceback (most recent call last):\n  File\nKeyError\n", "KeyError"),
        ("", "Spark failed: Exception"),
    ],
)
def test_what_happened_in_one_line(text: str, line: str) -> None:
    assert spark_line(Exception(text)) == line

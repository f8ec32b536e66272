"""Every shell command and Python snippet of the README, the first page and the tutorials works as shown."""

import sys
from pathlib import Path

import pytest

from tools.snippets import parse, run_page

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PYTHON = Path(sys.executable)

SPARK = (pytest.mark.spark, pytest.mark.tier("proof"), pytest.mark.timeout(900))
"""Every job starts a JVM; tests/spark runs jobs in the earlier tier."""
SECTION_MARKS: dict[str, tuple[pytest.MarkDecorator, ...]] = {"Pipelines": SPARK}
TUTORIAL_MARKS: dict[str, tuple[pytest.MarkDecorator, ...]] = {
    "topic-to-table": SPARK,
    # Three runs of pytest; tests/testing/test_user_example.py runs its main example in the earlier tier.
    "testing": (pytest.mark.tier("proof"),),
}

pytestmark = pytest.mark.tier("test")


def sections() -> list[str]:
    return list(dict.fromkeys(block.section for block in parse(README.read_text()) if block.runs))


def test_readme_has_the_expected_sections() -> None:
    assert {"First five minutes", "Several brokers", "Console", "Pipelines", "In your own tests"} <= set(sections())


@pytest.mark.parametrize("section", [pytest.param(name, marks=SECTION_MARKS.get(name, ())) for name in sections()])
def test_readme(section: str) -> None:
    run_page(README, PYTHON, section=section)


def test_first_page() -> None:
    run_page(ROOT / "docs" / "index.md", PYTHON)


TUTORIALS = sorted(path.stem for path in (ROOT / "docs" / "tutorials").glob("*.md"))


@pytest.mark.parametrize("name", [pytest.param(name, marks=TUTORIAL_MARKS.get(name, ())) for name in TUTORIALS])
def test_tutorial(name: str) -> None:
    run_page(ROOT / "docs" / "tutorials" / f"{name}.md", PYTHON)

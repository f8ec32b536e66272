"""Every shell command and Python snippet of the README, the first page and the tutorials works as shown."""

import sys
from pathlib import Path

import pytest

from tools.snippets import parse, run_page

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PYTHON = Path(sys.executable)

SPARK = (pytest.mark.spark, pytest.mark.tier("proof"))
"""Jobs start a JVM each: more than half a minute a page."""
SPARK_PAGES = ("topic-to-table",)
SPARK_SECTIONS = ("Pipelines",)

pytestmark = pytest.mark.tier("test")


def sections() -> list[str]:
    return list(dict.fromkeys(block.section for block in parse(README.read_text()) if block.runs))


def marked(name: str, slow: tuple[str, ...]) -> object:
    return pytest.param(name, marks=SPARK if name in slow else ())


def test_readme_has_the_expected_sections() -> None:
    assert {"First five minutes", "Several brokers", "Console", "Pipelines", "In your own tests"} <= set(sections())


@pytest.mark.parametrize("section", [marked(section, SPARK_SECTIONS) for section in sections()])
def test_readme(section: str) -> None:
    run_page(README, PYTHON, section=section)


def test_first_page() -> None:
    run_page(ROOT / "docs" / "index.md", PYTHON)


TUTORIALS = sorted(path.stem for path in (ROOT / "docs" / "tutorials").glob("*.md"))


@pytest.mark.parametrize("name", [marked(name, SPARK_PAGES) for name in TUTORIALS])
def test_tutorial(name: str) -> None:
    run_page(ROOT / "docs" / "tutorials" / f"{name}.md", PYTHON)

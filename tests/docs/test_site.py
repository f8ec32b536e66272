"""The documentation site builds without warnings and contains the generated pages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.tier("test")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    finished = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(directory)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return directory


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("index.html", "Where to go next"),
        ("reference/cli/index.html", "odradek reassign plan"),
        ("reference/configs/index.html", "broker.disconnect.grace.ms"),
        ("glossary/index.html", "High watermark"),
        ("ARCHITECTURE/index.html", "Odradek"),
        ("decisions/index.html", "decision"),
    ],
)
def test_page_is_in_the_site(site: Path, page: str, text: str) -> None:
    assert text in (site / page).read_text()


def test_site_loads_nothing_from_other_hosts(site: Path) -> None:
    page = (site / "index.html").read_text()
    assert 'src="https://' not in page
    assert "fonts.googleapis" not in page

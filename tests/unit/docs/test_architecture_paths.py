"""ARCHITECTURE.md names modules and folders: each of them exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
SOURCE = ROOT / "src" / "odradek"


def test_every_named_module_and_folder_exists() -> None:
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:/|\.py))`", TEXT))
    assert len(named) > 60
    assert [path for path in sorted(named) if not (SOURCE / path).exists()] == []


def test_every_package_is_on_the_map() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert [name for name in sorted(packages) if f"{name}/" not in TEXT] == []


def test_every_linked_page_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert links
    assert [link for link in links if not link.startswith("http") and not (ROOT / link).exists()] == []

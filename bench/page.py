"""docs/benchmarks.md by its sections: each benchmark writes its own and leaves the others as they are."""

from pathlib import Path

from tests.components import ROOT

DOCS = ROOT / "docs"
PAGE = DOCS / "benchmarks.md"
THREE_BROKERS_SECTION = "## Three brokers"
GROUPS_SECTION = "## Groups and transactions"
METADATA_SECTION = "## Metadata of a million partitions"
FAILOVER_SECTION = "## Without an active controller"
BROKER_FAILOVER_SECTION = "## Without a leader"
REPLICAS_SECTION = "## Thousands of replicas"
MANY_GROUPS_SECTION = "## A thousand groups"
COUNTING_SECTION = "## What counting costs"
SPARK_READS_SECTION = "## Spark reading a topic"
SPARK_WRITES_SECTION = "## Spark writing a topic"
COLUMNS_SECTION = "## Segments as columns"
OWN_SECTIONS = (
    THREE_BROKERS_SECTION,
    GROUPS_SECTION,
    METADATA_SECTION,
    FAILOVER_SECTION,
    BROKER_FAILOVER_SECTION,
    REPLICAS_SECTION,
    MANY_GROUPS_SECTION,
    COUNTING_SECTION,
    SPARK_READS_SECTION,
    SPARK_WRITES_SECTION,
    COLUMNS_SECTION,
)
"""Written by benchmarks of their own, and kept when the rest of the page is written anew."""


def replace_section(page: Path, title: str, text: str) -> None:
    """In the place of the section of this title, or at the end."""
    before, _, after = _split(page, title)
    parts = (before, f"{title}\n\n{text.strip()}", after)
    page.write_text("\n\n".join(part for part in parts if part) + "\n")


def own_sections(page: Path) -> str:
    """Those that are there, to stand behind a page that is written anew."""
    if not page.exists():
        return ""
    return "".join(f"\n{section}\n" for section in (_split(page, title)[1] for title in OWN_SECTIONS) if section)


def _split(page: Path, title: str) -> tuple[str, str, str]:
    """What is before the section, the section with its title, and what comes after it."""
    before, found, after = f"\n{page.read_text()}".partition(f"\n{title}\n")
    if not found:
        return before.strip("\n"), "", ""
    own, mark, following = after.partition("\n## ")
    return before.strip("\n"), f"{title}\n{own}".strip("\n"), f"{mark}{following}".strip("\n")

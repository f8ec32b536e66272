"""The sections of docs/benchmarks.md: each benchmark replaces its own section and leaves the others unchanged."""

from pathlib import Path

from tests.components import ROOT

DOCS = ROOT / "docs"
PAGE = DOCS / "benchmarks.md"
THREE_BROKERS_SECTION = "## Three brokers"
WORKLOADS_SECTION = "## Under load"
METADATA_SECTION = "## Metadata of a million partitions"
FAILOVER_SECTION = "## Controller failover"
BROKER_FAILOVER_SECTION = "## Leader failover"
REPLICAS_SECTION = "## Thousands of replicas"
MANY_GROUPS_SECTION = "## A thousand groups"
COUNTING_SECTION = "## Cost of metrics"
RECORD_VALIDATION_SECTION = "## Cost of full record validation"
SECURITY_SECTION = "## TLS, authorization and quotas"
SPARK_READS_SECTION = "## Reading a topic with Spark"
SPARK_WRITES_SECTION = "## Writing a topic with Spark"
COLUMNS_SECTION = "## Reading segments as columns"
COMPACTION_SECTION = "## Latency during compaction"
STALLS_SECTION = "## Longest stall of the event loop"
GENERATED_SECTIONS = (
    WORKLOADS_SECTION,
    THREE_BROKERS_SECTION,
    METADATA_SECTION,
    FAILOVER_SECTION,
    BROKER_FAILOVER_SECTION,
    REPLICAS_SECTION,
    MANY_GROUPS_SECTION,
    COUNTING_SECTION,
    RECORD_VALIDATION_SECTION,
    SECURITY_SECTION,
    SPARK_READS_SECTION,
    SPARK_WRITES_SECTION,
    COLUMNS_SECTION,
    COMPACTION_SECTION,
    STALLS_SECTION,
)
"""Sections of separate benchmarks, kept when `make bench` writes the page."""


def replace_section(page: Path, title: str, text: str) -> None:
    """Replaces the section with this title, or appends it."""
    before, _, after = _split(page, title)
    parts = (before, f"{title}\n\n{text.strip()}", after)
    page.write_text("\n\n".join(part for part in parts if part) + "\n")


def generated_sections(page: Path) -> str:
    """The existing sections of separate benchmarks, to be appended to a new page."""
    if not page.exists():
        return ""
    return "".join(f"\n{section}\n" for section in (_split(page, title)[1] for title in GENERATED_SECTIONS) if section)


def _split(page: Path, title: str) -> tuple[str, str, str]:
    """Returns the text before the section, the section with its title, and the text after it."""
    before, found, after = f"\n{page.read_text()}".partition(f"\n{title}\n")
    if not found:
        return before.strip("\n"), "", ""
    own, mark, following = after.partition("\n## ")
    return before.strip("\n"), f"{title}\n{own}".strip("\n"), f"{mark}{following}".strip("\n")

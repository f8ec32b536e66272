"""The tables of docs/reference/metrics.md."""

import re
from pathlib import Path

DOCUMENT = Path(__file__).parent.parent / "docs" / "reference" / "metrics.md"
_ROW = re.compile(r"\| `([^`]+)` \| (.+) \|")


def _rows(heading: str) -> dict[str, str]:
    """The rows of the table with this heading."""
    text = DOCUMENT.read_text()
    table = text[text.index(heading) :].split("\n\n")[0]
    return {match[1]: match[2] for line in table.splitlines() if (match := _ROW.fullmatch(line))}


def mbean_metrics() -> dict[str, list[str]]:
    """The names under which an MBean is served."""
    return {bean: re.findall(r"`([^`]+)`", cell) for bean, cell in _rows("| MBean of Kafka 4.3.1 | here |").items()}


def absent() -> dict[str, str]:
    """Why an MBean is not served."""
    return _rows("| MBean of Kafka 4.3.1 | why |")


def own_metrics() -> set[str]:
    return set(_rows("| metric | what it is |"))

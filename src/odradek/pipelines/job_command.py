"""A job's command line: its kind, topic, table and state directory."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

INGEST: Final = "ingest"
AUDIT: Final = "audit"
LOAD: Final = "load"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCommand:
    arguments: tuple[str, ...]
    """The arguments of `odradek job`. Never display them: Spark settings may contain secrets."""
    kind: str
    name: str
    topic: str
    table: Path
    """The table, which also contains the job's state. For a load, the state directory."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

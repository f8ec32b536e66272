"""A job as named by its command line: its kind, topic and table, and where its state lies."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

INGEST: Final = "ingest"
AUDIT: Final = "audit"
LOAD: Final = "load"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCommand:
    arguments: tuple[str, ...]
    """What stands behind `odradek job`. It may hold secrets, as Spark's settings do: not to be shown."""
    kind: str
    name: str
    topic: str
    table: Path
    """Beside which the state is kept; of a load, the directory of its state."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

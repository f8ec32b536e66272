"""What Spark keeps in a query's checkpoint, as far as sinks need it."""

import json
from pathlib import Path


def query_of(checkpoint: Path) -> str:
    """The query's id, which is the same after every restart, and another with another checkpoint."""
    return str(json.loads((checkpoint / "metadata").read_text())["id"])

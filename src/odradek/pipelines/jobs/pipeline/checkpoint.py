"""Reads the query ID from a Spark checkpoint."""

import json
from pathlib import Path


def query_of(checkpoint: Path) -> str:
    """Return the query's ID, which belongs to the checkpoint and survives restarts."""
    return str(json.loads((checkpoint / "metadata").read_text())["id"])

"""The status file of a run."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from odradek.pipelines.jobs.atomic_files import write_atomically

RUNNING: Final = "running"
DONE: Final = "done"
STOPPED: Final = "stopped"
FAILED: Final = "failed"

_FILE: Final = "status.json"


def keep_status(directory: Path, form: Mapping[str, Any]) -> None:
    write_atomically(directory / _FILE, json.dumps(form) + "\n")


def read_status(directory: Path) -> Any:
    """Return None if there is no status. Raises ValueError if the file is invalid."""
    file = directory / _FILE
    return json.loads(file.read_text()) if file.is_file() else None

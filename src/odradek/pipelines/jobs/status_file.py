"""The file in which a run says how far it is, was, or why it failed, for whoever looks after it."""

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
    """None: no run has said anything there. Raises what reading JSON raises if the file is none of ours."""
    file = directory / _FILE
    return json.loads(file.read_text()) if file.is_file() else None

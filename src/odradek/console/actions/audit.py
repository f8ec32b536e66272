"""The audit log: one JSON line before each change and one after it, with user, action, time and outcome.

If the first line cannot be written, the console does not make the change.
"""

import json
import os
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from odradek.console.actions.action import Action, Refused

# Number of bytes read from the end of the file to show the latest changes.
_TAIL_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One attempted change, read from the audit log."""

    id: str
    at_ms: int
    user: str
    action: str
    target: str
    details: dict[str, Any]
    outcome: str | None
    """None if the change is in progress, or if the console stopped during it."""
    has_succeeded: bool


class AuditLog:
    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self._lock: Final = threading.Lock()

    def begin(self, user: str, action: Action) -> str:
        """Returns the ID of the change. Raises Refused if the audit log cannot be written."""
        change = uuid4().hex
        entry = {
            "change": change,
            "event": "begun",
            "at_ms": time.time_ns() // 1_000_000,
            "who": user,
            "action": action.name,
            "target": action.target,
            "details": action.details(),
        }
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._append(entry)
        except OSError as error:
            reason = error.strerror or str(error)
            raise Refused(
                f"Nothing was changed because the audit log {str(self.path)!r} cannot be written: {reason}. "
                "Free disk space, or start the console with another --audit-log."
            ) from None
        return change

    def end(self, change: str, outcome: str, *, has_succeeded: bool) -> None:
        event = "done" if has_succeeded else "failed"
        self._append({"change": change, "event": event, "at_ms": time.time_ns() // 1_000_000, "outcome": outcome})

    def last(self, most: int = 200) -> list[Change]:
        """Returns the latest changes, newest first."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _TAIL_BYTES))
                lines = file.read().splitlines()
        except FileNotFoundError:
            return []
        return parse_changes(lines, most)

    def _append(self, entry: dict[str, Any]) -> None:
        line = json.dumps(entry, ensure_ascii=True).encode() + b"\n"
        with self._lock:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(descriptor, line)
            finally:
                os.close(descriptor)


def parse_changes(lines: list[bytes], most: int) -> list[Change]:
    """Skips incomplete and unknown lines, because people may edit the file."""
    begun: deque[dict[str, Any]] = deque(maxlen=most)
    ended: dict[str, dict[str, Any]] = {}
    for line in lines:
        try:
            entry = json.loads(line)
            if entry["event"] == "begun":
                begun.append(entry)
            else:
                ended[entry["change"]] = entry
        except (ValueError, TypeError, KeyError):
            continue
    return [_change(entry, ended.get(entry["change"])) for entry in reversed(begun)]


def _change(entry: dict[str, Any], end: dict[str, Any] | None) -> Change:
    return Change(
        id=str(entry["change"]),
        at_ms=int(entry["at_ms"]),
        user=str(entry["who"]),
        action=str(entry["action"]),
        target=str(entry["target"]),
        details=dict(entry["details"]),
        outcome=None if end is None else str(end.get("outcome", "")),
        has_succeeded=end is not None and end["event"] == "done",
    )

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from odradek.client.cluster import Cluster
from odradek.console.actions.action import Preview, Refused
from odradek.console.actions.audit import AuditLog, parse_changes


@dataclass
class Harmless:
    name: str = "Do nothing"
    target: str = "no\nbody"

    def preview(self, cluster: Cluster) -> Preview:
        return Preview(sentence="Nothing.")

    def carry_out(self, cluster: Cluster) -> str:
        return "Done."

    def details(self) -> dict[str, object]:
        return {"how": "not at all"}


def test_audit_log_records_user_action_target_and_outcome(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "new" / "audit.jsonl")
    first = log.begin("ann", Harmless())
    log.end(first, "Done.", has_succeeded=True)
    log.begin("another", Harmless())
    newest, oldest = log.last()
    assert (newest.user, newest.outcome, newest.has_succeeded) == ("another", None, False)
    assert (oldest.user, oldest.outcome, oldest.has_succeeded) == ("ann", "Done.", True)
    assert (oldest.action, oldest.target, oldest.details) == ("Do nothing", "no\nbody", {"how": "not at all"})
    lines = log.path.read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["begun", "done", "begun"]
    assert log.path.stat().st_mode & 0o077 == 0


def test_action_is_refused_when_audit_log_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="Nothing was changed"):
        AuditLog(tmp_path / "file" / "audit.jsonl").begin("ann", Harmless())


def test_torn_audit_log_lines_are_skipped() -> None:
    entry = {"change": "1", "event": "begun", "at_ms": 5, "who": "w", "action": "a", "target": "t", "details": {}}
    lines = [b'{"change": "0", "ev', b"[]", b"null", json.dumps(entry).encode(), b'{"change": "1"']
    assert [change.id for change in parse_changes(lines, 10)] == ["1"]

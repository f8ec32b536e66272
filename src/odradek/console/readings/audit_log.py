"""Rows for the audit log."""

import json
from collections.abc import Sequence

from odradek.console.actions.audit import Change
from odradek.console.readings.table import Cell, Column, Row, Tone, inert
from odradek.text.times import format_time

COLUMNS = (
    Column("at", "Time"),
    Column("who", "User"),
    Column("action", "Action"),
    Column("target", "Resource"),
    Column("details", "Details"),
    Column("outcome", "Outcome"),
)


def change_rows(changes: Sequence[Change]) -> list[Row]:
    return [
        Row(
            change.id,
            {
                "at": format_time(change.at_ms),
                "who": inert(change.user),
                "action": inert(change.action),
                "target": inert(change.target),
                "details": inert(json.dumps(change.details, ensure_ascii=False)) if change.details else "",
                "outcome": _outcome(change),
            },
        )
        for change in changes
    ]


def _outcome(change: Change) -> Cell:
    if change.outcome is None:
        return Cell("in progress, or the console stopped before it completed", tone=Tone.WARNING)
    return Cell(inert(change.outcome), tone=Tone.GOOD if change.has_succeeded else Tone.BAD)

"""The controllers' quorum."""

from nicegui import ui
from starlette.requests import Request

from odradek.console.console import Console
from odradek.console.readings.quorum import COLUMNS, quorum_rows, quorum_sentence
from odradek.console.readings.sight import Sight
from odradek.console.screens.frame import framed
from odradek.console.screens.widgets import RowsTable, Text


def add_quorum(console: Console) -> None:
    @ui.page("/quorum")
    def quorum(request: Request) -> None:
        with framed(console, request, "Quorum") as frame:
            sentence = Text(classes="o-faint")
            table = RowsTable("Replicas of the metadata", COLUMNS, empty="This cluster does not tell of its quorum.")

            def draw(sight: Sight) -> None:
                sentence.say(quorum_sentence(sight.quorum) if sight.quorum else "")
                table.show(quorum_rows(sight.quorum) if sight.quorum else [])

            frame.on_look(draw)

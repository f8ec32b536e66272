"""The first page: whether all is well, and the figures of the cluster."""

from nicegui import ui
from starlette.requests import Request

from odradek.console.console import Console
from odradek.console.readings.overview import COLUMNS, overview_rows
from odradek.console.screens.frame import framed
from odradek.console.screens.widgets import RowsTable


def add_overview(console: Console) -> None:
    @ui.page("/")
    def overview(request: Request) -> None:
        with framed(console, request, "Overview") as frame:
            table = RowsTable("Figures of the cluster", COLUMNS, empty="Nothing was seen of the cluster yet.")
            frame.on_look(lambda sight: table.show(overview_rows(sight)))

"""The audit log page: the latest changes made through this console."""

import asyncio

from nicegui import ui
from starlette.requests import Request

from odradek.console.console import Console
from odradek.console.readings.audit_log import COLUMNS, change_rows
from odradek.console.readings.table import Tone, page_of
from odradek.console.screens.frame import page_frame
from odradek.console.screens.widgets import Pager, RowsTable, Text

EVERY_S = 2.0


def add_audit_log(console: Console) -> None:
    @ui.page("/audit-log")
    def audit_log(request: Request) -> None:
        with page_frame(console, request, "Audit log") as frame:
            number = frame.number("page", 1)
            Text(f"File: {console.audit.path}. Newest entries first.", classes="o-faint")
            table = RowsTable("Audit log", COLUMNS, empty="No changes yet.")

            async def load() -> None:
                try:
                    found = await asyncio.to_thread(console.audit.last)
                except OSError as error:
                    frame.show_message(f"The audit log cannot be read: {error.strerror or error}.", Tone.BAD)
                    return
                page = page_of(found, number)
                table.show(change_rows(page.items))
                pager.show(page)

            async def turn(page: int) -> None:
                nonlocal number
                number = page
                frame.remember(page="" if page == 1 else page)
                await load()

            pager = Pager(turn)
            ui.timer(EVERY_S, load)

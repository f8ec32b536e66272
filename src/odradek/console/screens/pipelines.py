"""Pipelines of this machine: how far they are; started and stopped from here."""

import asyncio

from nicegui import ui
from starlette.requests import Request

from odradek.console.actions.pipelines import StartPipeline, StopPipeline
from odradek.console.console import Console
from odradek.console.inquiries.pipelines import look_at_pipelines
from odradek.console.readings.pipelines import COLUMNS, START, pipeline_rows, problem_sentences
from odradek.console.screens.change import propose
from odradek.console.screens.frame import framed
from odradek.console.screens.widgets import RowsTable, Text

EVERY_S = 2.0


def add_pipelines(console: Console) -> None:
    files = console.settings.pipelines

    @ui.page("/pipelines")
    def pipelines(request: Request) -> None:
        with framed(console, request, "Pipelines") as frame:
            if not files:
                Text("None was named: start the console with --pipeline FILE, as often as needed.")
                return

            async def act(key: str, action: str) -> None:
                file = files[int(key.partition(":")[0])]
                await propose(frame, StartPipeline(file) if action == START else StopPipeline(file))
                await load()

            table = RowsTable(
                "Pipelines", COLUMNS, empty="Reading their states …", on_act=act if frame.may_change else None
            )
            problems = Text(classes="o-bad")

            async def load() -> None:
                found = await asyncio.to_thread(look_at_pipelines, files)
                table.show(pipeline_rows(found))
                problems.say(problem_sentences(found))

            ui.timer(EVERY_S, load)

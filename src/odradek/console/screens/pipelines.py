"""The page of pipelines and jobs on this machine: progress, start and stop."""

import asyncio

from nicegui import ui
from starlette.requests import Request

from odradek.console.actions.action import Action
from odradek.console.actions.jobs import StartJob, StopJob
from odradek.console.actions.pipelines import StartPipeline, StopPipeline
from odradek.console.console import Console
from odradek.console.queries.jobs import describe_jobs
from odradek.console.queries.pipelines import PipelineSeen, describe_pipelines
from odradek.console.readings.pipelines import COLUMNS, START, pipeline_rows, problem_sentences
from odradek.console.screens.change import propose
from odradek.console.screens.frame import page_frame
from odradek.console.screens.widgets import RowsTable, Text

EVERY_S = 2.0


def add_pipelines(console: Console) -> None:
    files, jobs = console.settings.pipelines, console.settings.jobs
    bootstrap = ",".join(map(str, console.settings.bootstrap))

    def describe() -> list[PipelineSeen]:
        return [*describe_pipelines(files), *describe_jobs(jobs)]

    def action_of(number: int, is_start: bool) -> Action:
        if number < len(files):
            return StartPipeline(files[number]) if is_start else StopPipeline(files[number])
        job = jobs[number - len(files)]
        return StartJob(job, bootstrap) if is_start else StopJob(job)

    @ui.page("/pipelines")
    def pipelines(request: Request) -> None:
        with page_frame(console, request, "Pipelines") as frame:
            if not files and not jobs:
                Text("No pipelines or jobs. Start the console with --pipeline FILE or --job COMMAND (repeatable).")
                return

            async def act(key: str, action: str) -> None:
                await propose(frame, action_of(int(key.partition(":")[0]), action == START))
                await load()

            table = RowsTable("Pipelines", COLUMNS, empty="Loading…", on_act=act if frame.may_change else None)
            problems = Text(classes="o-bad")

            async def load() -> None:
                found = await asyncio.to_thread(describe)
                table.show(pipeline_rows(found))
                problems.say(problem_sentences(found))

            ui.timer(EVERY_S, load)

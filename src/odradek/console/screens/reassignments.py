"""The page of ongoing reassignments: progress, remaining time and cancellation."""

import time

from nicegui import ui
from starlette.requests import Request

from odradek.base.ids import TopicPartition
from odradek.client.reassignment_progress import ProgressMeter
from odradek.console.actions.reassignments import CancelReassignments, ClearThrottles
from odradek.console.console import Console
from odradek.console.queries.reassignments import reassignment_states
from odradek.console.readings.partitions import PROGRESS_COLUMNS, progress_rows, progress_sentence
from odradek.console.readings.table import page_of
from odradek.console.screens.change import propose
from odradek.console.screens.frame import Frame, page_frame
from odradek.console.screens.widgets import Pager, RowsTable, Text, button, enable

EVERY_S = 1.0


def add_reassignments(console: Console) -> None:
    @ui.page("/reassignments")
    def reassignments(request: Request) -> None:
        with page_frame(console, request, "Reassignments") as frame:
            _Reassignments(frame)


class _Reassignments:
    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._meter = ProgressMeter()
        self._page = frame.number("page", 1)
        self._sentence = Text("Loading reassignments…")
        self._sentence.element.props["role"] = "status"
        ui.link("Partitions", "/partitions")
        if frame.may_change:
            with ui.element("div").classes("o-bar"):
                self._cancel = button(
                    "Cancel all reassignments", lambda: propose(frame, CancelReassignments(None)), kind="o-danger"
                )
                button("Remove throttles", lambda: propose(frame, ClearThrottles()))
            enable(self._cancel, False)
        self._table = RowsTable(
            "Reassignments", PROGRESS_COLUMNS, empty="", on_act=self._act if frame.may_change else None
        )
        self._pager = Pager(self._turn)
        ui.timer(EVERY_S, self._load)

    async def _load(self) -> None:
        states = await self._frame.query(self._frame.console.gateway.query(reassignment_states), is_repeated=True)
        if states is None:
            return
        seen = self._meter.sample(states, time.monotonic())
        self._sentence.say(progress_sentence(seen))
        page = page_of(seen.states, self._page)
        self._table.show(progress_rows(page.items))
        self._pager.show(page)
        if self._frame.may_change:
            enable(self._cancel, bool(states))

    def _turn(self, page: int) -> None:
        self._page = page
        self._frame.remember(page="" if page == 1 else page)

    async def _act(self, key: str, action: str) -> None:
        topic, _, number = key.rpartition("-")
        await propose(self._frame, CancelReassignments((TopicPartition(topic, int(number)),)))

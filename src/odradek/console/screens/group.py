"""The page of one group: members, assignments, lag, rebalances and offset reset."""

import time
from collections.abc import Callable

from nicegui import ui
from starlette.requests import Request

from odradek.client.lag import OffsetSample, total_of
from odradek.console.actions.groups import WISHES, DeleteGroup, ResetOffsets, reset_of
from odradek.console.console import Console
from odradek.console.queries.groups import GroupDetail, describe_group
from odradek.console.readings import groups as reading
from odradek.console.readings.charts import lag_chart
from odradek.console.readings.table import inert, page_of
from odradek.console.screens.change import compose, propose
from odradek.console.screens.frame import Frame, page_frame
from odradek.console.screens.widgets import ChartView, Pager, RowsTable, Text, button, choice, text_field

EVERY_S = 2.0
_SAMPLES_KEPT = 15


def add_group(console: Console) -> None:
    @ui.page("/groups/one")
    def group(request: Request, id: str = "") -> None:
        with page_frame(console, request, f"Group {inert(id)}") as frame:
            _Group(frame, id)


class _Group:
    def __init__(self, frame: Frame, group: str) -> None:
        self._frame = frame
        self._group = group
        self._page = frame.number("page", 1)
        self._samples: list[OffsetSample] = []
        self._detail: GroupDetail | None = None
        self._heading = Text("Loading…", classes="o-faint")
        if frame.may_change:
            with ui.element("div").classes("o-bar"):
                button("Reset offsets", self._reset)
                button("Delete", self._delete, kind="o-danger")
        Text("Members", "h2")
        self._members = RowsTable("Members", reading.MEMBER_COLUMNS, empty="No members.")
        Text("Lag", "h2")
        self._chart = ChartView("Lag over time")
        self._lags = RowsTable("Lag", reading.LAG_COLUMNS, empty="No committed offsets and no assigned partitions.")
        self._pager = Pager(self._turn)
        Text("Recent rebalances", "h2")
        self._rebalances = RowsTable(
            "Recent rebalances",
            reading.REBALANCE_COLUMNS,
            empty="None known. Brokers report rebalances only over HTTP (http.address).",
        )
        ui.timer(EVERY_S, self._load)

    async def _load(self) -> None:
        # Rates over several samples are steadier than between two samples.
        before = self._samples[0] if self._samples else None
        query = self._frame.console.gateway.query
        request = query(lambda cluster: describe_group(cluster, self._group, before))
        detail = await self._frame.query(request, is_repeated=True)
        if detail is None:
            self._heading.say("Currently unavailable.")
            return
        self._samples = [*self._samples, detail.sample][-_SAMPLES_KEPT:]
        self._detail = detail
        records = total_of(detail.lags).records
        if records is not None:
            self._chart.show(lag_chart(self._frame.console.lags.add(self._group, time.time_ns() // 1_000_000, records)))
        self._draw()

    def _draw(self) -> None:
        if self._detail is None:
            return
        self._heading.say(reading.heading_of(self._detail))
        self._members.show(reading.member_rows(self._detail.group))
        page = page_of(self._detail.lags, self._page)
        self._lags.show(reading.lag_rows(page.items))
        self._pager.show(page)
        self._rebalances.show(reading.rebalance_rows(self._detail.rebalances or ()))

    def _turn(self, page: int) -> None:
        self._page = page
        self._frame.remember(id=self._group, page="" if page == 1 else page)
        self._draw()

    async def _reset(self) -> None:
        await compose(self._frame, "Reset offsets", self._reset_form)
        await self._load()

    def _reset_form(self) -> Callable[[], ResetOffsets]:
        where = choice("New position", WISHES, "earliest")
        at = text_field("Offset, number of records, or time", hint="17, -10 or 2026-01-31T12:00:00Z")
        topics = text_field("Topics", hint="all topics with committed offsets; or names, separated by commas")
        return lambda: reset_of(self._group, where.value, at.value, topics.value)

    async def _delete(self) -> None:
        if await propose(self._frame, DeleteGroup(self._group)):
            ui.navigate.to("/groups")

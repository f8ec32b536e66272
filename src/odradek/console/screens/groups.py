"""The list of groups: searched and paged on the server; lag is queried for the displayed groups only."""

from nicegui import ui
from starlette.requests import Request

from odradek.client.groups import GroupListing
from odradek.console.actions.groups import DeleteGroup
from odradek.console.console import Console
from odradek.console.queries.groups import GroupSummary, summaries_of
from odradek.console.readings.groups import COLUMNS, group_page, group_rows
from odradek.console.screens.change import propose
from odradek.console.screens.frame import Frame, page_frame
from odradek.console.screens.widgets import Pager, RowsTable, text_field

EVERY_S = 3.0


def add_groups(console: Console) -> None:
    @ui.page("/groups")
    def groups(request: Request) -> None:
        with page_frame(console, request, "Groups") as frame:
            _Groups(frame)


class _Groups:
    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._search = frame.query_params.get("search", "")
        self._page = frame.number("page", 1)
        self._listings: list[GroupListing] = frame.console.groups.recent or []
        self._summaries: dict[str, GroupSummary] = {}
        with ui.element("div").classes("o-bar"):
            text_field("Search groups", self._search, on_change=self._on_search, hint="part of the name")
        self._table = RowsTable(
            "Groups", COLUMNS, empty="No matching groups.", on_act=self._act if frame.may_change else None
        )
        self._pager = Pager(self._turn)
        self._draw()
        ui.timer(EVERY_S, self._load)

    async def _load(self) -> None:
        found = await self._frame.query(self._frame.console.groups.get(), is_repeated=True)
        if found is None:
            return
        self._listings = found
        shown = [one.id for one in self._draw()]
        summaries = await self._frame.query(
            self._frame.console.gateway.query(lambda cluster: summaries_of(cluster, shown)), is_repeated=True
        )
        if summaries is not None:
            self._summaries = summaries
            self._draw()

    def _draw(self) -> list[GroupListing]:
        page = group_page(self._listings, search=self._search, page=self._page)
        self._table.show(group_rows(page.items, self._summaries))
        self._pager.show(page)
        return list(page.items)

    async def _on_search(self, text: str) -> None:
        self._search = text
        await self._turn(1)

    async def _turn(self, page: int) -> None:
        self._page = page
        self._frame.remember(search=self._search, page="" if page == 1 else page)
        await self._load()

    async def _act(self, group: str, action: str) -> None:
        if await propose(self._frame, DeleteGroup(group)):
            self._frame.console.groups.forget()
            await self._load()

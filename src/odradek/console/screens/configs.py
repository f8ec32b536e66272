"""The configs page of a topic, a broker or all brokers: search, descriptions and edits with a preview."""

from collections.abc import Callable

from nicegui import ui
from starlette.requests import Request

from odradek.client.config_description import DescribedConfig
from odradek.console.actions.configs import AlterConfig
from odradek.console.console import Console
from odradek.console.queries.configs import configs_of, differences, to_resource
from odradek.console.readings import configs as reading
from odradek.console.readings.snapshot import ClusterSnapshot
from odradek.console.readings.table import inert
from odradek.console.screens.change import compose
from odradek.console.screens.frame import Frame, page_frame
from odradek.console.screens.widgets import Pager, RowsTable, Text, button, check, choice, text_field


def add_configs(console: Console) -> None:
    @ui.page("/configs")
    def configs(request: Request) -> None:
        with page_frame(console, request, "Configs") as frame:
            _Configs(frame)


class _Configs:
    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._topic = frame.query_params.get("topic") or None
        self._broker = frame.number("broker", -1)
        self._resource = to_resource(self._topic, self._broker if self._broker >= 0 else None)
        self._search = frame.query_params.get("search", "")
        self._only_changed = frame.query_params.get("changed") == "True"
        self._page = frame.number("page", 1)
        self._configs: list[DescribedConfig] = []
        with ui.element("div").classes("o-bar"):
            self._of = choice(
                "Configs of", self._places(frame.console.watch.snapshot), self._place(), on_change=self._go
            )
            text_field("Search configs", self._search, on_change=self._on_search, hint="name or description")
            check("Only non-default values", self._only_changed, self._on_changed)
        self._table = RowsTable(
            f"Configs of {reading.title_of(self._resource)}",
            reading.COLUMNS,
            empty="No matching configs.",
            on_act=self._act if frame.may_change else None,
        )
        self._pager = Pager(self._turn)
        if self._topic is None:
            Text("Differences between brokers", "h2")
            self._place_for_differences = ui.element("div")
            with self._place_for_differences:
                button("Compare brokers", self._compare)
        frame.on_snapshot(self._offer)
        ui.timer(0, self._load, once=True)

    def _place(self) -> str:
        if self._topic is not None:
            return f"topic={self._topic}"
        return "" if self._broker < 0 else f"broker={self._broker}"

    def _places(self, snapshot: ClusterSnapshot | None) -> dict[str, str]:
        """Lists no other topics, as there may be many: topic pages link to their configs."""
        found = {"": "All brokers"}
        found |= {f"broker={one}": f"Broker {one}" for one in sorted(snapshot.reachable if snapshot else ())}
        here = self._place()
        return found | ({} if here in found else {here: reading.title_of(self._resource)})

    def _offer(self, snapshot: ClusterSnapshot) -> None:
        self._of.offer(self._places(snapshot))

    def _go(self, place: str) -> None:
        ui.navigate.to(f"/configs?{place}" if place else "/configs")

    async def _load(self) -> None:
        query = self._frame.console.gateway.query
        found = await self._frame.query(query(lambda cluster: configs_of(cluster, self._resource)))
        if found is not None:
            self._configs = found
            self._draw()

    def _draw(self) -> None:
        page = reading.config_page(self._configs, search=self._search, only_changed=self._only_changed, page=self._page)
        self._table.show(page.items)
        self._pager.show(page)

    def _turn(self, page: int) -> None:
        self._page = page
        self._frame.remember(
            topic=self._topic,
            broker=self._broker if self._broker >= 0 else "",
            search=self._search,
            changed=self._only_changed,
            page="" if page == 1 else page,
        )
        self._draw()

    def _on_search(self, text: str) -> None:
        self._search = text
        self._turn(1)

    def _on_changed(self, wanted: bool) -> None:
        self._only_changed = wanted
        self._turn(1)

    async def _act(self, name: str, action: str) -> None:
        seen = next(one for one in self._configs if one.name == name)

        def form() -> Callable[[], AlterConfig]:
            Text(f"{inert(seen.name)} of {reading.title_of(self._resource)}")
            Text(inert(seen.documentation), classes="o-faint")
            back = check("Remove the value set at this level", False) if seen.is_own else None
            given = "" if seen.is_sensitive else seen.value or ""
            value = text_field("New value", given, lines=1 if len(given) < 80 else 4)
            return lambda: AlterConfig(
                resource=self._resource,
                config=name,
                value=None if back is not None and back.entered else value.value,
                seen=seen,
            )

        await compose(self._frame, "Change config", form)
        await self._load()

    async def _compare(self) -> None:
        found = await self._frame.query(self._frame.console.gateway.query(differences))
        if found is None:
            return
        brokers = reading.brokers_of(found)
        self._place_for_differences.clear()
        with self._place_for_differences:
            table = RowsTable(
                "Differences between brokers",
                reading.difference_columns(brokers),
                empty="All brokers have the same configs.",
            )
            table.show(reading.difference_rows(found, brokers))
            button("Compare brokers", self._compare)

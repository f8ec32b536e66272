"""The list of topics: searched, sorted and paged on the server; topics are created and deleted from here."""

from collections.abc import Callable

from nicegui import ui
from starlette.requests import Request

from odradek.console.actions.form_values import optional_number, pairs
from odradek.console.actions.topics import CreateTopic, DeleteTopic
from odradek.console.console import Console
from odradek.console.queries.topics import TopicLags, lags_of_topics
from odradek.console.readings.snapshot import ClusterSnapshot
from odradek.console.readings.topics import COLUMNS, Order, lags_sentence, topic_page
from odradek.console.screens.change import compose, propose
from odradek.console.screens.frame import Frame, page_frame
from odradek.console.screens.widgets import Pager, RowsTable, Text, button, check, choice, text_field
from odradek.console.shared import Shared

# Lag needs the committed offsets of all groups, so the page queries it rarely and after the first draw.
LAGS_EVERY_S = 15.0
LAGS_AFTER_S = 1.0

_ORDERS = {Order.NAME: "Name", Order.SIZE: "Size", Order.PARTITIONS: "Partitions"}


def add_topics(console: Console) -> None:
    lags = Shared(console.gateway, lags_of_topics, kept_s=LAGS_EVERY_S / 2)

    @ui.page("/topics")
    def topics(request: Request) -> None:
        with page_frame(console, request, "Topics") as frame:
            _Topics(frame, lags)


class _Topics:
    def __init__(self, frame: Frame, lags: Shared[TopicLags]) -> None:
        self._frame = frame
        self._shared_lags = lags
        self._lags: TopicLags | None = None
        self._search = frame.query_params.get("search", "")
        self._with_internal = frame.query_params.get("internal") == "True"
        given = frame.query_params.get("order", "")
        self._order = Order(given) if given in _ORDERS else Order.NAME
        self._page = frame.number("page", 1)
        with ui.element("div").classes("o-bar"):
            text_field("Search topics", self._search, on_change=self._on_search, hint="part of the name")
            choice("Sort by", {str(one): word for one, word in _ORDERS.items()}, self._order, on_change=self._on_order)
            check("Show internal topics", self._with_internal, self._on_internal)
            if frame.may_change:
                button("Create topic", self._create)
        self._table = RowsTable(
            "Topics", COLUMNS, empty="No matching topics.", on_act=self._act if frame.may_change else None
        )
        self._pager = Pager(self._turn)
        self._remark = Text(classes="o-faint")
        frame.on_snapshot(self._draw)
        ui.timer(LAGS_AFTER_S, self._load_lags, once=True, immediate=False)
        ui.timer(LAGS_EVERY_S, self._load_lags, immediate=False)

    async def _load_lags(self) -> None:
        if not self._frame.is_open:
            return
        found = await self._frame.query(self._shared_lags.get(), is_repeated=True)
        if found is not None:
            self._lags = found
            self._remark.say(lags_sentence(found))
            self._draw(self._frame.console.watch.snapshot)

    def _draw(self, snapshot: ClusterSnapshot | None) -> None:
        if snapshot is not None:
            page = topic_page(
                snapshot,
                self._lags,
                search=self._search,
                with_internal=self._with_internal,
                order=self._order,
                page=self._page,
            )
            self._table.show(page.items)
            self._pager.show(page)

    def _update(self, page: int = 1) -> None:
        self._page = page
        self._frame.remember(
            search=self._search,
            internal=self._with_internal,
            order="" if self._order is Order.NAME else self._order,
            page="" if page == 1 else page,
        )
        self._draw(self._frame.console.watch.snapshot)

    def _turn(self, page: int) -> None:
        self._update(page)

    def _on_search(self, text: str) -> None:
        self._search = text
        self._update()

    def _on_order(self, order: str) -> None:
        self._order = Order(order)
        self._update()

    def _on_internal(self, wanted: bool) -> None:
        self._with_internal = wanted
        self._update()

    async def _act(self, topic: str, action: str) -> None:
        await propose(self._frame, DeleteTopic(topic))

    async def _create(self) -> None:
        await compose(self._frame, "Create topic", _creation_form)


def _creation_form() -> Callable[[], CreateTopic]:
    name = text_field("Name")
    partitions = text_field("Partitions", hint="default: num.partitions")
    replicas = text_field("Replicas", hint="default: default.replication.factor")
    configs = text_field("Configs", hint="cleanup.policy=compact", lines=3)
    return lambda: creation_of(name.value, partitions.value, replicas.value, configs.value)


def creation_of(name: str, partitions: str, replicas: str, configs: str) -> CreateTopic:
    return CreateTopic(
        topic=name.strip(),
        partitions=optional_number(partitions, "Partitions"),
        replication_factor=optional_number(replicas, "Replicas", most=32767),
        configs=pairs(configs, "Config"),
    )

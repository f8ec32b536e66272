"""The partitions page: replicas by broker, leader elections and reassignments."""

from collections.abc import Callable

from nicegui import ui
from starlette.requests import Request

from odradek.base.ids import TopicPartition
from odradek.client.reassignment_plan import Purpose
from odradek.console.actions.action import Refused
from odradek.console.actions.form_values import broker_ids, optional_number
from odradek.console.actions.reassignments import CancelReassignments, ElectLeaders, ReassignPartitions
from odradek.console.console import Console
from odradek.console.queries.partitions import states_of_replicas
from odradek.console.readings import partitions as reading
from odradek.console.readings.heat import heat_of
from odradek.console.readings.snapshot import ClusterSnapshot
from odradek.console.readings.table import inert
from odradek.console.screens.change import compose, propose
from odradek.console.screens.frame import Frame, page_frame
from odradek.console.screens.widgets import Pager, RowsTable, Text, button, check, choice, text_field

REPLICAS_EVERY_S = 2.0
_ORDERS = {reading.Order.NAME: "Name", reading.Order.HEAT: "Bytes in"}


def add_partitions(console: Console) -> None:
    @ui.page("/partitions")
    def partitions(request: Request) -> None:
        with page_frame(console, request, "Partitions") as frame:
            _Map(frame)


class _Map:
    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._search = frame.query_params.get("search", "")
        self._only_problems = frame.query_params.get("problems") == "True"
        self._page = frame.number("page", 1)
        given = frame.query_params.get("order", "")
        self._order = reading.Order(given) if given in _ORDERS else reading.Order.NAME
        self._near = reading.UNKNOWN
        with ui.element("div").classes("o-bar"):
            text_field("Search topics", self._search, on_change=self._on_search, hint="part of the name")
            choice("Sort by", {str(one): word for one, word in _ORDERS.items()}, self._order, on_change=self._on_order)
            check(
                "Only partitions out of sync or without their preferred leader",
                self._only_problems,
                self._on_only_problems,
            )
            ui.link("Reassignments", "/reassignments")
            if frame.may_change:
                button("Elect preferred leaders", lambda: propose(frame, ElectLeaders(None)))
                button("Plan reassignment", self._plan)
        self._table = RowsTable(
            "Partitions by brokers",
            (),
            empty="No matching partitions.",
            on_act=self._act if frame.may_change else None,
        )
        self._pager = Pager(self._turn)
        frame.on_snapshot(self._draw)
        ui.timer(REPLICAS_EVERY_S, self._load_replicas)

    def _draw(self, snapshot: ClusterSnapshot | None) -> None:
        if snapshot is not None:
            page = reading.map_page(
                snapshot,
                search=self._search,
                only_problems=self._only_problems,
                page=self._page,
                order=self._order,
                near=self._near,
            )
            self._table.head(reading.map_columns(snapshot))
            self._table.show(page.items)
            self._pager.show(page)

    def _turn(self, page: int) -> None:
        self._page = page
        self._frame.remember(
            search=self._search,
            problems=self._only_problems,
            order="" if self._order is reading.Order.NAME else self._order,
            page="" if page == 1 else page,
        )
        self._draw(self._frame.console.watch.snapshot)

    async def _load_replicas(self) -> None:
        """Queries the displayed partitions only, because every broker with a replica receives a request."""
        snapshot = self._frame.console.watch.snapshot
        if snapshot is None:
            return
        page = reading.shown_partitions(
            snapshot,
            heat_of(snapshot),
            search=self._search,
            only_problems=self._only_problems,
            page=self._page,
            order=self._order,
        )
        held = {name: layout.replicas for name, layout in page.items}
        query = self._frame.console.gateway.query
        request = query(lambda cluster: states_of_replicas(cluster, held, snapshot.reachable))
        found = await self._frame.query(request, is_repeated=True)
        if found is not None:
            self._near = found
            self._draw(self._frame.console.watch.snapshot)

    def _on_order(self, order: str) -> None:
        self._order = reading.Order(order)
        self._turn(1)

    def _on_search(self, text: str) -> None:
        self._search = text
        self._turn(1)

    def _on_only_problems(self, wanted: bool) -> None:
        self._only_problems = wanted
        self._turn(1)

    async def _act(self, key: str, action: str) -> None:
        topic, _, number = key.rpartition("-")
        partition = TopicPartition(topic, int(number))
        match action:
            case reading.ELECT:
                await propose(self._frame, ElectLeaders((partition,)))
            case reading.CANCEL:
                await propose(self._frame, CancelReassignments((partition,)))
            case reading.REASSIGN:
                await compose(self._frame, "Reassign partition", lambda: self._reassign_form(partition))

    def _reassign_form(self, partition: TopicPartition) -> Callable[[], ReassignPartitions]:
        snapshot = self._frame.console.watch.snapshot
        layout = snapshot.partitions.get(partition) if snapshot else None
        Text(f"{inert(str(partition))}: brokers for its replicas, starting with the preferred leader.")
        replicas = text_field("Brokers", ", ".join(map(str, layout.replicas)) if layout else "", hint="1, 2, 3")
        throttle = text_field("Throttle in bytes per second", hint="none")
        return lambda: ReassignPartitions(
            wanted={partition: broker_ids(replicas.value, "A broker")},
            throttle=optional_number(throttle.value, "The throttle", most=2**62),
        )

    async def _plan(self) -> None:
        await compose(self._frame, "Plan reassignment", lambda: plan_form(""))


def plan_form(drain: str) -> Callable[[], ReassignPartitions]:
    drained = text_field("Drain these brokers", drain, hint="2, 5")
    filled = text_field("Fill these brokers", hint="new brokers")
    even = check("Rebalance replicas, bytes and leaders over all brokers", False)
    throttle = text_field("Throttle in bytes per second", hint="none")

    def read() -> ReassignPartitions:
        purpose = Purpose(
            drain=frozenset(broker_ids(drained.value, "A broker to drain")),
            fill=frozenset(broker_ids(filled.value, "A broker to fill")),
            even=bool(even.entered),
        )
        if purpose == Purpose():
            raise Refused("Enter brokers to drain or to fill, or select rebalancing.")
        if both := purpose.drain & purpose.fill:
            raise Refused(f"Broker {min(both)} cannot be both drained and filled. Remove it from one of the lists.")
        return ReassignPartitions(purpose=purpose, throttle=optional_number(throttle.value, "The throttle", most=2**62))

    return read

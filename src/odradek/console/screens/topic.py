"""The page of one topic: partitions, configs, consumer groups and actions."""

from collections.abc import Callable

from nicegui import ui
from starlette.requests import Request

from odradek.client.layout import TopicLayout
from odradek.console.actions.form_values import optional_number, whole_number
from odradek.console.actions.reassignments import ChangeReplicas
from odradek.console.actions.topics import AddPartitions, CloneTopic, DeleteTopic, PurgeTopic
from odradek.console.console import Console
from odradek.console.history import new_series
from odradek.console.queries.configs import configs_of, to_resource
from odradek.console.queries.topics import PartitionOffsets, offsets_of, readers_of
from odradek.console.readings import topics as reading
from odradek.console.readings.charts import Sample, throughput_chart
from odradek.console.readings.snapshot import ClusterSnapshot
from odradek.console.readings.table import format_count, inert, link_to
from odradek.console.screens.change import compose, propose
from odradek.console.screens.frame import Frame, page_frame
from odradek.console.screens.widgets import ChartView, Pager, RowsTable, Text, button, text_field
from odradek.text.amounts import format_bytes

OFFSETS_EVERY_S = 3.0


def add_topic(console: Console) -> None:
    @ui.page("/topics/{topic}")
    def topic(request: Request, topic: str) -> None:
        with page_frame(console, request, f"Topic {inert(topic)}") as frame:
            _Topic(frame, topic)


class _Topic:
    def __init__(self, frame: Frame, topic: str) -> None:
        self._frame = frame
        self._topic = topic
        self._page = frame.number("page", 1)
        self._offsets: PartitionOffsets | None = None
        self._state = Text(classes="o-faint")
        with ui.element("div").classes("o-bar"):
            ui.link("Messages", link_to("topics", topic, "messages"))
            ui.link("Configs", link_to("configs", topic=topic))
            if frame.may_change:
                button("Add partitions", self._add_partitions)
                button("Change replicas", self._change_replicas)
                button("Clone", self._clone)
                button("Purge", lambda: propose(frame, PurgeTopic(topic)), kind="o-danger")
                button("Delete", self._delete, kind="o-danger")
        self._rates = new_series()
        self._chart = ChartView("Throughput over time")
        Text("Partitions", "h2")
        self._partitions = RowsTable("Partitions", reading.PARTITION_COLUMNS, empty="Topic not found.")
        self._pager = Pager(self._turn)
        Text("Configs of this topic", "h2")
        self._configs = RowsTable(
            "Configs of this topic",
            reading.CONFIG_COLUMNS,
            empty="No configs set for this topic; the cluster's defaults apply.",
        )
        Text("Consumer groups", "h2")
        self._groups = RowsTable("Consumer groups", reading.GROUP_COLUMNS, empty="No group has committed offsets.")
        self._limit_note = Text(classes="o-faint")
        frame.on_snapshot(self._draw)
        ui.timer(0, self._load, once=True)
        ui.timer(OFFSETS_EVERY_S, self._load_offsets)

    def _draw(self, snapshot: ClusterSnapshot | None) -> None:
        if snapshot is None:
            return
        layout = snapshot.topics.get(self._topic)
        if layout is None:
            self._state.say("Topic not found.")
            self._partitions.show([])
            return
        size, stored = snapshot.sizes_of_topics.get(self._topic, (0, 0))
        self._state.say(
            f"{format_count(len(layout.partitions), 'partition')}, "
            f"{reading.replication_factor(layout)} replicas of each, "
            f"{format_bytes(size)} ({format_bytes(stored)} with replicas){reading.rates_phrase(snapshot, layout)}"
        )
        self._draw_rates(snapshot, layout)
        page = reading.partition_page(snapshot, layout, self._offsets, self._page)
        self._partitions.show(page.items)
        self._pager.show(page)

    def _draw_rates(self, snapshot: ClusterSnapshot, layout: TopicLayout) -> None:
        rates = reading.rates_of(snapshot, layout)
        if rates is not None and (not self._rates or snapshot.at_ms > self._rates[-1].at_ms):
            self._rates.append(Sample(snapshot.at_ms, (rates.bytes_in, rates.bytes_out)))
            self._chart.show(throughput_chart(self._rates))

    def _turn(self, page: int) -> None:
        self._page = page
        self._frame.remember(page="" if page == 1 else page)
        self._draw(self._frame.console.watch.snapshot)

    async def _load(self) -> None:
        """Runs less often than snapshots, because this data changes only through user actions."""
        query = self._frame.console.gateway.query
        configs = await self._frame.query(query(lambda cluster: configs_of(cluster, to_resource(self._topic, None))))
        if configs is None:
            return
        self._configs.show(reading.config_rows(configs))
        readers = await self._frame.query(query(lambda cluster: readers_of(cluster, self._topic)))
        if readers is not None:
            self._groups.show(reading.reader_rows(readers))
            left = (
                f"Only {readers.queried:,} of {readers.of:,} groups were checked."
                if readers.queried < readers.of
                else ""
            )
            self._limit_note.say(left)

    async def _load_offsets(self) -> None:
        snapshot = self._frame.console.watch.snapshot
        if snapshot is None or self._topic not in snapshot.topics:
            return
        query = self._frame.console.gateway.query
        found = await self._frame.query(query(lambda cluster: offsets_of(cluster, self._topic)), is_repeated=True)
        if found is not None:
            self._offsets = found
            self._draw(self._frame.console.watch.snapshot)

    async def _add_partitions(self) -> None:
        snapshot = self._frame.console.watch.snapshot
        layout = snapshot.topics.get(self._topic) if snapshot else None
        there = len(layout.partitions) if layout else 0

        def form() -> Callable[[], AddPartitions]:
            field = text_field(f"New number of partitions (now {there:,})", str(there + 1))
            return lambda: AddPartitions(self._topic, whole_number(field.value, "The number of partitions", least=1))

        await compose(self._frame, "Add partitions", form)

    async def _change_replicas(self) -> None:
        snapshot = self._frame.console.watch.snapshot
        layout = snapshot.topics.get(self._topic) if snapshot else None
        there = reading.replication_factor(layout) if layout else ""

        def form() -> Callable[[], ChangeReplicas]:
            count = text_field("New replication factor", there)
            throttle = text_field("Throttle in bytes per second", hint="none")
            return lambda: ChangeReplicas(
                topic=self._topic,
                count=whole_number(count.value, "The number of replicas", least=1, most=32767),
                throttle=optional_number(throttle.value, "The throttle", most=2**62),
            )

        await compose(self._frame, "Change replicas", form)

    async def _clone(self) -> None:
        def form() -> Callable[[], CloneTopic]:
            Text("A new topic with the same partitions, replicas and configs, and no records.")
            name = text_field("Name of the new topic", f"{self._topic}-copy")
            return lambda: CloneTopic(self._topic, name.value.strip())

        await compose(self._frame, "Clone topic", form)

    async def _delete(self) -> None:
        if await propose(self._frame, DeleteTopic(self._topic)):
            ui.navigate.to("/topics")

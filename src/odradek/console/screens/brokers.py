"""All brokers, and one broker with its disks and partitions."""

from nicegui import ui
from starlette.requests import Request

from odradek.console.actions.brokers import UnregisterBroker
from odradek.console.console import Console
from odradek.console.readings import brokers as reading
from odradek.console.readings.snapshot import ClusterSnapshot
from odradek.console.readings.table import link_to, page_of
from odradek.console.screens.change import compose, propose
from odradek.console.screens.frame import page_frame
from odradek.console.screens.partitions import plan_form
from odradek.console.screens.widgets import Pager, RowsTable, Text


def add_brokers(console: Console) -> None:
    @ui.page("/brokers")
    def brokers(request: Request) -> None:
        with page_frame(console, request, "Brokers") as frame:

            async def act(key: str, action: str) -> None:
                if action == reading.UNREGISTER:
                    await propose(frame, UnregisterBroker(int(key)))
                else:
                    await compose(frame, f"Drain broker {key}", lambda: plan_form(key))

            table = RowsTable(
                "Brokers", reading.COLUMNS, empty="Connecting to the cluster…", on_act=act if frame.may_change else None
            )
            skew = Text(classes="o-faint")

            def draw(snapshot: ClusterSnapshot) -> None:
                table.show(reading.broker_rows(snapshot))
                skew.say(reading.skew_sentence(snapshot))

            frame.on_snapshot(draw)

    @ui.page("/brokers/{broker}")
    def broker(request: Request, broker: int) -> None:
        with page_frame(console, request, f"Broker {broker}") as frame:
            page_number = frame.number("page", 1)
            state = Text(classes="o-faint")
            ui.link("Configs", link_to("configs", broker=broker))
            Text("Log dirs", "h2")
            disks = RowsTable("Log dirs", reading.DISK_COLUMNS, empty="This broker did not report its log dirs.")
            Text("Partitions", "h2")
            hosted = RowsTable("Partitions", reading.HOSTED_COLUMNS, empty="No replica is assigned to this broker.")

            def turn(number: int) -> None:
                nonlocal page_number
                page_number = number
                frame.remember(page=number)
                draw(console.watch.snapshot)

            pager = Pager(turn)

            def draw(snapshot: ClusterSnapshot | None) -> None:
                if snapshot is None:
                    return
                known = f"{reading.state_of(snapshot, broker).text}; {reading.heading_of(snapshot, broker)}"
                state.say(known)
                disks.show(reading.disk_rows(snapshot, broker))
                page = page_of(reading.hosted_rows(snapshot, broker), page_number)
                hosted.show(page.items)
                pager.show(page)

            frame.on_snapshot(draw)

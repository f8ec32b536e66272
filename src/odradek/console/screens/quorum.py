"""The quorum page: controllers and the voter set."""

from collections.abc import Callable

from nicegui import ui
from starlette.requests import Request

from odradek.console.actions.quorum import AddVoter, RemoveVoter
from odradek.console.console import Console
from odradek.console.readings.quorum import ADD, COLUMNS, listener_of, quorum_rows, quorum_sentence
from odradek.console.readings.snapshot import ClusterSnapshot
from odradek.console.screens.change import compose, propose
from odradek.console.screens.frame import page_frame
from odradek.console.screens.widgets import RowsTable, Text, text_field


def add_quorum(console: Console) -> None:
    @ui.page("/quorum")
    def quorum(request: Request) -> None:
        with page_frame(console, request, "Quorum") as frame:

            async def act(key: str, action: str) -> None:
                if action == ADD:
                    snapshot = console.watch.snapshot
                    listener = listener_of(snapshot.quorum) if snapshot and snapshot.quorum else ""
                    await compose(frame, f"Add node {key} to the voter set", lambda: _addition_form(int(key), listener))
                else:
                    await propose(frame, RemoveVoter(int(key)))

            sentence = Text(classes="o-faint")
            table = RowsTable(
                "Replicas of the metadata log",
                COLUMNS,
                empty="This cluster does not describe its quorum.",
                on_act=act if frame.may_change else None,
            )

            def draw(snapshot: ClusterSnapshot) -> None:
                sentence.say(quorum_sentence(snapshot.quorum) if snapshot.quorum else "")
                table.show(quorum_rows(snapshot.quorum) if snapshot.quorum else [])

            frame.on_snapshot(draw)


def _addition_form(node: int, listener: str) -> Callable[[], AddVoter]:
    Text("Only a node with process.roles=controller can be a voter. Observers do not report their controller listener.")
    address = text_field("Address of its controller listener", hint="host:9093")
    name = text_field("Name of its controller listener", listener)
    return lambda: AddVoter(node=node, listener=name.value, address=address.value)

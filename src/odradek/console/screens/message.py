"""One message in full, and the form for a new one."""

from collections.abc import Callable, Mapping

from nicegui import ui

from odradek.console.actions.action import Action
from odradek.console.actions.form_values import optional_number, pairs
from odradek.console.actions.messages import Form, ProduceMessage, ResendMessage, bytes_of
from odradek.console.queries.messages import Message, whole_record
from odradek.console.readings.messages import View, heading_of, in_full
from odradek.console.readings.table import inert
from odradek.console.screens.change import Form as DialogForm
from odradek.console.screens.change import compose, new_dialog, remove
from odradek.console.screens.frame import Frame
from odradek.console.screens.widgets import Text, button, choice, text_field
from odradek.pipelines.schemas.decoding import Decode


async def show_message(frame: Frame, message: Message, view: View, decoders: Mapping[int, Decode]) -> None:
    async def download() -> None:
        query = frame.console.gateway.query
        record = await frame.query(query(lambda cluster: whole_record(cluster, message.partition, message.offset)))
        if record is not None:
            ui.download.content(record.value or b"", f"{message.partition}-{message.offset}.bin")

    with new_dialog("Message") as dialog, ui.element("div").classes("o-card"):
        Text("Message", "h2")
        Text(heading_of(message), classes="o-faint")
        for title, content in (("Key", message.key), ("Value", message.value)):
            _block(title, in_full(content, view, decoders))
        for name, value in message.headers:
            _block(f"Header {inert(name)}", in_full(value, View.HEX if view is View.HEX else View.TEXT))
        with ui.element("div").classes("o-bar"):
            button("Close", lambda: dialog.submit(None), kind="o-plain")
            if message.value is not None:
                button("Download value", download)
            if frame.may_change:
                button("Resend", lambda: dialog.submit(True))
    wants_resend = await dialog
    remove(dialog)
    if wants_resend:
        await compose(frame, "Resend message", lambda: _resend_form(message))


def _resend_form(message: Message) -> Callable[[], Action]:
    Text("Produces a new message with exactly the same key, value and headers.")
    topic = text_field("Target topic", message.partition.topic)
    partition = text_field("Partition of the message", hint="selected by its key")
    return lambda: ResendMessage(
        source=message.partition,
        offset=message.offset,
        topic=topic.value.strip(),
        chosen_partition=optional_number(partition.value, "The partition", least=0),
    )


def _block(title: str, content: str) -> None:
    Text(title, "h3")
    block = Text(content, "pre", "o-pre").element
    # Scrollable content must be reachable by keyboard.
    block.props.update(tabindex=0, role="region")
    block.props["aria-label"] = title


def message_form(topic: str) -> DialogForm:
    def draw() -> Callable[[], Action]:
        key = text_field("Key", hint="leave empty for no key")
        key_form = choice("Key format", {Form.TEXT: "Text", Form.HEX: "Hex"}, Form.TEXT)
        value_form = choice("Value format", {Form.TEXT: "Text", Form.HEX: "Hex", Form.NULL: "Null"}, Form.TEXT)
        value = text_field("Value", lines=6)
        headers = text_field("Headers", hint="name=value, one per line", lines=2)
        partition = text_field("Partition of the message", hint="selected by its key")

        def read() -> Action:
            return ProduceMessage(
                topic=topic,
                key=bytes_of(key.value, Form(key_form.value) if key.value else Form.NULL, "The key"),
                value=bytes_of(value.value, Form(value_form.value), "The value"),
                headers=tuple((name, text.encode()) for name, text in pairs(headers.value, "Header").items()),
                chosen_partition=optional_number(partition.value, "The partition", least=0),
            )

        return read

    return draw

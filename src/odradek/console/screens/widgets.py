"""The few controls that pages are built from: native ones, each with its name, as text and never as markup."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from nicegui import ui
from nicegui.element import Element
from nicegui.events import GenericEventArguments

from odradek.console.readings.table import Column, Page, Row

Changed = Callable[[str], Any]
OnAct = Callable[[str, str], Awaitable[None]]


class RowsTable(Element, component="rows.js"):
    """`on_act` hears the row's key and the word on the button."""

    def __init__(
        self, label: str, columns: Sequence[Column], *, empty: str = "There is none.", on_act: OnAct | None = None
    ) -> None:
        super().__init__()
        self._props["columns"] = [asdict(column) for column in columns]
        self._props["rows"] = []
        self._props["label"] = label
        self._props["empty"] = empty
        self._with_actions = on_act is not None
        if on_act is not None:

            async def act(event: GenericEventArguments) -> None:
                await on_act(str(event.args["key"]), str(event.args["action"]))

            self.on("act", act)

    def show(self, rows: Sequence[Row]) -> None:
        """Sends only what is different from what is shown."""
        drawn = [row.as_json() for row in rows]
        if not self._with_actions:
            for one in drawn:
                one["actions"] = []
        if drawn != self._props["rows"]:
            self._props["rows"] = drawn
            self.update()


class Field:
    """A labelled control whose value is known here as soon as it changes."""

    def __init__(self, label: str, value: str, tag: str, on_change: Changed | None, hint: str = "") -> None:
        self.value = value
        self._on_change = on_change
        with ui.element("label").classes("o-field") as self.element:
            ui.element("span").style("display: inline").classes("o-label")._text = label
            self.control = ui.element(tag)
        if hint:
            self.control._props["placeholder"] = hint

    def listen(self, event: str) -> None:
        self.control.on(event, self._changed, js_handler="(e) => emit(e.target.value)", throttle=0.0)

    def _changed(self, event: GenericEventArguments) -> Any:
        self.value = str(event.args)
        return self._on_change(self.value) if self._on_change else None


def text_field(
    label: str, value: str = "", *, on_change: Changed | None = None, hint: str = "", lines: int = 1
) -> Field:
    field = Field(label, value, "input" if lines == 1 else "textarea", on_change, hint)
    field.control._props["value"] = value
    if lines > 1:
        field.control._props["rows"] = lines
        field.control._props["spellcheck"] = "false"
    field.control._props["autocomplete"] = "off"
    field.listen("input")
    return field


def choice(label: str, options: Mapping[str, str], value: str, *, on_change: Changed | None = None) -> Field:
    """`options`: what is shown by value."""
    field = Field(label, value, "select", on_change)
    with field.control:
        for name, shown in options.items():
            option = ui.element("option")
            option._props["value"] = name
            option._props["selected"] = name == value
            option._text = shown
    field.listen("change")
    return field


class Check:
    def __init__(self, label: str, value: bool, on_change: Callable[[bool], Any] | None = None) -> None:
        self.value = value

        def changed(event: GenericEventArguments) -> Any:
            self.value = bool(event.args)
            return on_change(self.value) if on_change else None

        with ui.element("label").classes("o-check"):
            control = ui.element("input")
            control._props["type"] = "checkbox"
            control._props["checked"] = value
            control.on("change", changed, js_handler="(e) => emit(e.target.checked)")
            ui.element("span")._text = label


def button(text: str, on_click: Callable[[], Any], *, kind: str = "", name: str | None = None) -> Element:
    """`name`: what it is called for those who cannot see where it stands."""
    made = ui.element("button").classes(f"o-button {kind}")
    made._props["type"] = "button"
    if name:
        made._props["aria-label"] = name
    made._text = text
    made.on("click", lambda: on_click(), args=[])
    return made


def enable(control: Element, is_enabled: bool) -> None:
    if control._props.get("disabled", False) is is_enabled:
        control._props["disabled"] = not is_enabled
        control.update()


class Text:
    """A paragraph or heading whose words may change."""

    def __init__(self, words: str = "", tag: str = "p", classes: str = "") -> None:
        self.element = ui.element(tag).classes(classes)
        self.element._text = words

    def say(self, words: str) -> None:
        if self.element._text != words:
            self.element._text = words
            self.element.update()


class Pager:
    """Which part of a list is shown; hidden while there is only one."""

    def __init__(self, on_turn: Callable[[int], Any]) -> None:
        self._page = 1
        with ui.element("nav").classes("o-pager") as self._bar:
            self._bar._props["aria-label"] = "Pages"
            self._back = button("Previous", lambda: on_turn(self._page - 1), kind="o-small", name="Previous page")
            self._next = button("Next", lambda: on_turn(self._page + 1), kind="o-small", name="Next page")
        self._words = Text(classes="o-faint")

    def show(self, page: Page[Any]) -> None:
        self._page = page.number
        enable(self._back, page.number > 1)
        enable(self._next, page.number < page.count)
        self._bar.set_visibility(page.count > 1)
        self._words.say(page.sentence if page.total else "")

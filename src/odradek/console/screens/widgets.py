"""Native, labelled controls for all pages; they draw text, never markup."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement
from nicegui.events import GenericEventArguments

from odradek.console.readings.charts import Chart
from odradek.console.readings.table import Column, Page, Row

Changed = Callable[[str], Any]
OnAct = Callable[[str, str], Awaitable[None]]


class RowsTable(Element, component="rows.js"):
    """Calls `on_act` with the row's key and the button's label."""

    def __init__(
        self, label: str, columns: Sequence[Column], *, empty: str = "None.", on_act: OnAct | None = None
    ) -> None:
        super().__init__()
        self.props["columns"] = [asdict(column) for column in columns]
        self.props["rows"] = []
        self.props["label"] = label
        self.props["empty"] = empty
        self._with_actions = on_act is not None
        if on_act is not None:

            async def act(event: GenericEventArguments) -> None:
                await on_act(str(event.args["key"]), str(event.args["action"]))

            self.on("act", act)

    def head(self, columns: Sequence[Column]) -> None:
        """Replaces the columns, for tables with a column per broker. Call it before `show`."""
        drawn = [asdict(column) for column in columns]
        if drawn != self.props["columns"]:
            self.props["columns"] = drawn
            self.props["rows"] = []

    def show(self, rows: Sequence[Row]) -> None:
        """Sends only the rows that differ from the displayed rows."""
        drawn = [row.as_json() for row in rows]
        if not self._with_actions:
            for one in drawn:
                one["actions"] = []
        if drawn != self.props["rows"]:
            self.props["rows"] = drawn


class ChartView(Element, component="chart.js"):
    def __init__(self, title: str) -> None:
        super().__init__()
        self.props.update(chart=None, title=title)

    def show(self, chart: Chart | None) -> None:
        drawn = None if chart is None else chart.as_json()
        if drawn != self.props["chart"]:
            self.props["chart"] = drawn


class Entry(Element, component="entry.js"):
    """A labelled control whose value is synchronized on every change."""

    def __init__(self, kind: str, label: str, value: str | bool, on_change: Callable[..., Any] | None) -> None:
        super().__init__()
        self.entered: str | bool = value
        self._on_change = on_change
        self.props.update(kind=kind, label=label, value=value, options=[], hint="", lines=1)
        self.on("entered", self._on_entry)

    @property
    def value(self) -> str:
        return str(self.entered)

    def offer(self, options: Mapping[str, str]) -> None:
        """Replaces the options of a choice."""
        offered = [[str(name), shown] for name, shown in options.items()]
        if offered != self.props["options"]:
            self.props["options"] = offered

    def _on_entry(self, event: GenericEventArguments) -> Any:
        self.entered = event.args
        return self._on_change(self.entered) if self._on_change else None


def text_field(
    label: str, value: str = "", *, on_change: Changed | None = None, hint: str = "", lines: int = 1
) -> Entry:
    field = Entry("text", label, value, on_change)
    field.props.update(hint=hint, lines=lines)
    return field


def choice(label: str, options: Mapping[str, str], value: str, *, on_change: Changed | None = None) -> Entry:
    """`options` maps values to labels."""
    field = Entry("choice", label, str(value), on_change)
    field.props["options"] = [[str(name), shown] for name, shown in options.items()]
    return field


def check(label: str, value: bool, on_change: Callable[[bool], Any] | None = None) -> Entry:
    return Entry("check", label, value, on_change)


def button(text: str, on_click: Callable[[], Any], *, kind: str = "", name: str | None = None) -> Element:
    """`name` is the label for screen readers."""
    made = TextElement(tag="button", text=text).classes(f"o-button {kind}")
    made.props["type"] = "button"
    if name:
        made.props["aria-label"] = name
    made.on("click", lambda: on_click(), args=[])
    return made


def enable(control: Element, is_enabled: bool) -> None:
    if control.props.get("disabled", False) is is_enabled:
        control.props["disabled"] = not is_enabled


class Text:
    """A paragraph or heading with replaceable text."""

    def __init__(self, words: str = "", tag: str = "p", classes: str = "") -> None:
        self.element: Final = TextElement(tag=tag, text=words).classes(classes)

    def say(self, words: str) -> None:
        self.element.text = words


class Pager:
    """Page navigation of a list; hidden if there is only one page."""

    def __init__(self, on_turn: Callable[[int], Any]) -> None:
        self._page = 1
        with ui.element("nav").classes("o-pager") as self._bar:
            self._bar.props["aria-label"] = "Pages"
            self._back = button("Previous", lambda: on_turn(self._page - 1), kind="o-small", name="Previous page")
            self._next = button("Next", lambda: on_turn(self._page + 1), kind="o-small", name="Next page")
        self._words = Text(classes="o-faint")

    def show(self, page: Page[Any]) -> None:
        self._page = page.number
        enable(self._back, page.number > 1)
        enable(self._next, page.number < page.count)
        self._bar.set_visibility(page.count > 1)
        self._words.say(page.sentence if page.total else "")

"""The messages page of a topic: browse, search, live tail, export and produce."""

import asyncio
from collections import deque
from collections.abc import Mapping

from nicegui import ui
from starlette.requests import Request

from odradek.console.actions.action import Refused
from odradek.console.actions.form_values import optional_number, point_in_time, whole_number
from odradek.console.console import Console
from odradek.console.queries import messages as queries
from odradek.console.queries.export import FileForm, export_messages
from odradek.console.queries.expression import InvalidExpression
from odradek.console.queries.messages import Found, Message, Positions, Start, Wanted
from odradek.console.readings import messages as reading
from odradek.console.readings.messages import View
from odradek.console.readings.table import Tone, format_count, inert, link_to
from odradek.console.screens.change import compose
from odradek.console.screens.frame import Frame, page_frame
from odradek.console.screens.message import message_form, show_message
from odradek.console.screens.widgets import RowsTable, Text, button, check, choice, enable, text_field
from odradek.pipelines.schemas.decoding import Decode

_STARTS = {
    Start.NEWEST: "Latest",
    Start.BEGINNING: "Earliest",
    Start.OFFSET: "Offset",
    Start.TIME: "Time",
}
_VIEWS = {View.TEXT: "Text", View.JSON: "JSON", View.HEX: "Hex"}
_BY_SCHEMA = {View.SCHEMA: "By schema (Avro, Protobuf, JSON)"}
_FILES = {FileForm.JSON_LINES: "JSON lines", FileForm.CSV: "CSV"}
_TAIL_EVERY_S = 0.5


def add_messages(console: Console) -> None:
    @ui.page("/topics/{topic}/messages")
    def messages(request: Request, topic: str) -> None:
        with page_frame(console, request, f"Messages of {inert(topic)}") as frame:
            _Messages(frame, topic)


class _Messages:
    def __init__(self, frame: Frame, topic: str) -> None:
        self._frame = frame
        self._topic = topic
        self._shown: deque[Message] = deque(maxlen=queries.TAIL_MAX)
        self._resume: Positions | None = None
        self._tail: Positions | None = None
        self._tailed = Wanted(topic=topic)
        self._left_out = 0
        self._views = _VIEWS | (_BY_SCHEMA if frame.console.schemas is not None else {})
        self._decoders: Mapping[int, Decode] = {}
        self._put_controls()
        self._table = RowsTable("Messages", reading.COLUMNS, empty="No messages loaded.", on_act=self._act)
        self._sentence = Text(classes="o-faint")
        with ui.element("div").classes("o-bar"):
            self._next = button("Next", self._read_next)
        enable(self._next, False)
        ui.timer(0, self._search, once=True)
        self._timer = ui.timer(_TAIL_EVERY_S, self._follow, active=False)

    def _put_controls(self) -> None:
        query = self._frame.query_params
        given = query.get("start", "")
        view = query.get("view", "")
        ui.link("Back to topic", link_to("topics", self._topic))
        with ui.element("div").classes("o-bar"):
            self._start = choice(
                "Start at",
                {str(one): word for one, word in _STARTS.items()},
                given if given in _STARTS else Start.NEWEST,
            )
            self._at = text_field("Offset or time", query.get("at", ""), hint="17 or 2026-01-31T12:00:00Z")
            self._partition = text_field("Partition", query.get("partition", ""), hint="all")
            self._text = text_field("Containing text", query.get("search", ""), hint="key, value or headers")
            self._where = text_field(
                "Where", query.get("where", ""), hint="value.amount > 10 and headers.from == 'shop'"
            )
            self._view = choice(
                "Display as",
                {str(one): word for one, word in self._views.items()},
                view if view in self._views else View.TEXT,
                on_change=lambda _: self._draw(),
            )
            button("Read", self._search)
            check("Live tail", False, self._toggle_tail)
            if self._frame.may_change:
                button("Produce message", self._produce)
        with ui.element("div").classes("o-bar"):
            self._file = choice("Export as", {str(one): word for one, word in _FILES.items()}, FileForm.JSON_LINES)
            button("Export", self._export)

    def _read_form(self) -> Wanted:
        """Raises Refused."""
        start = Start(self._start.value)
        at = 0
        if start is Start.OFFSET:
            at = whole_number(self._at.value, "Offset", most=2**63 - 1)
        elif start is Start.TIME:
            at = point_in_time(self._at.value, "The time")
        partition = optional_number(self._partition.value, "A partition", least=0)
        wanted = Wanted(
            topic=self._topic,
            partition=partition,
            start=start,
            at=at,
            search=self._text.value,
            expression=self._where.value,
        )
        try:
            queries.matcher_of(wanted)
        except InvalidExpression as error:
            raise Refused(f"Invalid query. {error}") from None
        return wanted

    async def _search(self) -> None:
        await self._read(None)

    async def _read_next(self) -> None:
        await self._read(self._resume)

    async def _read(self, resume: Positions | None) -> None:
        try:
            wanted = self._read_form()
        except Refused as error:
            self._frame.show_message(str(error), Tone.BAD)
            return
        self._remember()
        self._sentence.say("Loading…")
        query = self._frame.console.gateway.query
        found = await self._frame.query(query(lambda cluster: queries.find_messages(cluster, wanted, resume)))
        if found is None:
            self._sentence.say("")
            return
        await self._take(found, wanted)

    async def _take(self, found: Found, wanted: Wanted) -> None:
        self._shown = deque(found.messages, maxlen=queries.TAIL_MAX)
        self._resume = found.positions
        self._sentence.say(reading.found_sentence(found, wanted))
        enable(self._next, not found.is_at_end)
        await self._draw()

    async def _draw(self) -> None:
        view, schemas = View(self._view.value), self._frame.console.schemas
        if view is View.SCHEMA and schemas is not None:
            ids = reading.schema_ids_of(self._shown)
            if not ids <= self._decoders.keys():
                self._decoders = await asyncio.to_thread(schemas.decoders, ids)
        self._table.show(reading.message_rows(self._shown, view, self._decoders))

    def _remember(self) -> None:
        start, view = self._start.value, self._view.value
        self._frame.remember(
            start="" if start == Start.NEWEST else start,
            at=self._at.value if start in (Start.OFFSET, Start.TIME) else "",
            partition=self._partition.value.strip(),
            search=self._text.value,
            where=self._where.value,
            view="" if view == View.TEXT else view,
        )

    async def _toggle_tail(self, wanted: bool) -> None:
        self._tail = None
        self._timer.active = False
        if wanted:
            try:
                where = self._read_form()
            except Refused as error:
                self._frame.show_message(str(error), Tone.BAD)
                return
            self._tail = await self._frame.query(
                self._frame.console.gateway.query(lambda cluster: queries.ends_of(cluster, where))
            )
            self._left_out = 0
            self._shown.clear()
            self._tailed = where
            await self._draw()
            enable(self._next, False)
            self._timer.active = self._tail is not None
            self._sentence.say("Waiting for messages…" if self._tail is not None else "")

    async def _follow(self) -> None:
        positions = self._tail
        if positions is None:
            return
        try:
            wanted = self._tailed = self._read_form()
        except Refused:
            # The user is still typing the query.
            wanted = self._tailed
        query = self._frame.console.gateway.query
        request = query(lambda cluster: queries.follow(cluster, positions, wanted))
        arrived = await self._frame.query(request, is_repeated=True)
        if arrived is None or self._tail is None:
            return
        messages, self._tail, left_out = arrived
        self._left_out += left_out + max(0, len(self._shown) + len(messages) - queries.TAIL_MAX)
        if messages:
            self._shown.extendleft(messages)
            more = f", {self._left_out:,} more not shown" if self._left_out else ""
            self._sentence.say(f"The {len(self._shown):,} newest messages{more}.")
            await self._draw()

    async def _act(self, key: str, action: str) -> None:
        for message in self._shown:
            if reading.key_of(message) == key:
                await show_message(self._frame, message, View(self._view.value), self._decoders)
                return

    async def _export(self) -> None:
        try:
            wanted, form = self._read_form(), FileForm(self._file.value)
        except Refused as error:
            self._frame.show_message(str(error), Tone.BAD)
            return
        self._sentence.say("Exporting…")
        query = self._frame.console.gateway.query
        found = await self._frame.query(query(lambda cluster: export_messages(cluster, wanted, form)))
        if found is None:
            self._sentence.say("")
            return
        more = (
            "; the file reached its size limit: export the rest from a later offset" if found.has_reached_limit else ""
        )
        self._sentence.say(f"{format_count(found.count, 'message')} exported{more}.")
        ui.download.content(found.data, f"{self._topic}.{form}")

    async def _produce(self) -> None:
        await compose(self._frame, "Produce message", message_form(self._topic))

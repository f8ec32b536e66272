"""Anything found from anywhere, by keyboard."""

from collections.abc import Sequence
from dataclasses import asdict

from nicegui.element import Element
from nicegui.events import GenericEventArguments

from odradek.console.console import EXPECTED, Console
from odradek.console.readings.search import WORDS_LENGTH_MAX, find


class Search(Element, component="search.js"):
    def __init__(self, console: Console, places: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._console = console
        self._places = places
        self._words = ""
        self.props.update(hits=[], asked="")
        self.on("asked", self._ask)

    async def _ask(self, event: GenericEventArguments) -> None:
        words = self._words = str(event.args)[:WORDS_LENGTH_MAX]
        # What is known at once is shown at once; groups have to be asked for.
        self._show(words, ())
        try:
            listed = await self._console.groups.get()
        except EXPECTED:
            return
        # Whoever has typed on meanwhile wants something else by now.
        if words == self._words:
            self._show(words, [one.id for one in listed])

    def _show(self, words: str, groups: Sequence[str]) -> None:
        found = find(words, self._console.watch.sight, groups, self._places)
        self.props["hits"] = [asdict(hit) for hit in found]
        self.props["asked"] = words

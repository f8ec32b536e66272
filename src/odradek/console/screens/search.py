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
        self._groups: Sequence[str] = ()
        self.props.update(hits=[], queried="")
        self.on("asked", self._query)

    async def _query(self, event: GenericEventArguments) -> None:
        words = self._words = str(event.args)[:WORDS_LENGTH_MAX]
        # What is known at once is shown at once; groups have to be asked for.
        self._show()
        try:
            listed = await self._console.groups.get()
        except EXPECTED:
            return
        # Whoever has typed on meanwhile wants something else by now.
        if words == self._words:
            self._groups = [one.id for one in listed]
            self._show()

    def renew(self) -> None:
        """The cluster was looked at again: what is sought may be there now."""
        if self._words:
            self._show()

    def _show(self) -> None:
        found = find(self._words, self._console.watch.snapshot, self._groups, self._places)
        hits = [asdict(hit) for hit in found]
        if (hits, self._words) != (self.props["hits"], self.props["asked"]):
            self.props["hits"] = hits
            self.props["asked"] = self._words

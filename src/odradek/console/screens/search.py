"""The search field of every page, usable by keyboard."""

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
        self.props.update(hits=[], searched="")
        self.on("search", self._query)

    async def _query(self, event: GenericEventArguments) -> None:
        words = self._words = str(event.args)[:WORDS_LENGTH_MAX]
        # Show the hits from the snapshot at once; groups need a query.
        self._show()
        try:
            listed = await self._console.groups.get()
        except EXPECTED:
            return
        # The user has typed more in the meantime.
        if words == self._words:
            self._groups = [one.id for one in listed]
            self._show()

    def renew(self) -> None:
        """Repeats the search on a new snapshot."""
        if self._words:
            self._show()

    def _show(self) -> None:
        found = find(self._words, self._console.watch.snapshot, self._groups, self._places)
        hits = [asdict(hit) for hit in found]
        if (hits, self._words) != (self.props["hits"], self.props["searched"]):
            self.props["hits"] = hits
            self.props["searched"] = self._words

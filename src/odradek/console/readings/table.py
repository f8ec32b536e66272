"""Tables as data: what a page shows in rows, before anybody draws it.

Whatever Source elsewhere passes `inert` on its way into a cell: control characters are spelled out. Markup is
harmless because cells are drawn as text only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote, urlencode

from odradek.text.terminal import neutralise

T = TypeVar("T")

PAGE_ROWS: Final = 25
# More than this of a name or value tells a person nothing, and costs every browser that looks.
_TEXT_LENGTH_MAX: Final = 2000


class Tone(StrEnum):
    """How it stands; drawn with a sign of its own, for those who see no difference in colours."""

    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    label: str
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    link: str | None = None
    tone: Tone | None = None


@dataclass(frozen=True, slots=True)
class Row:
    key: str
    cells: Mapping[str, Cell | str]
    actions: Sequence[str] = ()
    """What can be done about it: the words on the buttons."""

    def text(self, column: str) -> str:
        cell = self.cells[column]
        return cell if isinstance(cell, str) else cell.text

    def as_json(self) -> dict[str, Any]:
        cells = {}
        for name, cell in self.cells.items():
            full = cell if isinstance(cell, Cell) else Cell(cell)
            cells[name] = {"text": full.text, "link": full.link, "tone": full.tone}
        return {"key": self.key, "cells": cells, "actions": list(self.actions)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """A part of something that may be ten thousand long."""

    items: Sequence[T] = field(default_factory=tuple)
    number: int = 1
    count: int = 1
    total: int = 0

    @property
    def sentence(self) -> str:
        if self.count == 1:
            return f"{self.total:,} in total"
        first = (self.number - 1) * PAGE_ROWS + 1
        return f"{first:,} to {first + len(self.items) - 1:,} of {self.total:,}"


def page_of(items: Sequence[T], number: int, rows: int = PAGE_ROWS) -> Page[T]:
    """A number beyond the last page is the last page: items may go while somebody looks."""
    count = max(1, -(-len(items) // rows))
    number = min(max(1, number), count)
    return Page(items=items[(number - 1) * rows : number * rows], number=number, count=count, total=len(items))


def inert(text: str) -> str:
    return neutralise(text if len(text) <= _TEXT_LENGTH_MAX else text[:_TEXT_LENGTH_MAX] + " …")


def link_to(*path: object, **query: object) -> str:
    """An address within the console; what is empty is left out of the query."""
    given = {name: str(value) for name, value in query.items() if value not in (None, "", False)}
    return "/" + "/".join(quote(str(part), safe="") for part in path) + (f"?{urlencode(given)}" if given else "")


def counted(count: int, noun: str, plural: str | None = None) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {plural or noun + 's'}"


def listed(items: Sequence[object], most: int = 5) -> str:
    shown = ", ".join(map(str, items[:most]))
    return shown if len(items) <= most else f"{shown} and {len(items) - most:,} more"

"""Tables as data, independent of how screens draw them.

External text must pass through `inert`, which escapes control characters. Markup is harmless because screens draw cells
as text only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote, urlencode

from odradek.text.terminal import neutralise

T = TypeVar("T")

PAGE_ROWS: Final = 25
# Longer names and values are truncated to keep pages small.
_TEXT_LENGTH_MAX: Final = 2000


class Tone(StrEnum):
    """Severity, drawn with its own symbol as well as a colour."""

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
    """Labels of the row's action buttons."""

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
    """One page of a list that may have ten thousand items."""

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
    """Clamps the page number, because items may disappear while a page is open."""
    count = max(1, -(-len(items) // rows))
    number = min(max(1, number), count)
    return Page(items=items[(number - 1) * rows : number * rows], number=number, count=count, total=len(items))


def inert(text: str) -> str:
    return neutralise(text if len(text) <= _TEXT_LENGTH_MAX else text[:_TEXT_LENGTH_MAX] + " …")


def link_to(*path: object, **query: object) -> str:
    """Builds a console URL, without empty query parameters."""
    given = {name: str(value) for name, value in query.items() if value not in (None, "", False)}
    return "/" + "/".join(quote(str(part), safe="") for part in path) + (f"?{urlencode(given)}" if given else "")


def format_count(count: int, noun: str, plural: str | None = None) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {plural or noun + 's'}"


def format_list(items: Sequence[object], most: int = 5) -> str:
    shown = ", ".join(map(str, items[:most]))
    return shown if len(items) <= most else f"{shown} and {len(items) - most:,} more"

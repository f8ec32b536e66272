"""Prints tables and JSON. rich is imported only when a table is printed, which keeps other commands fast."""

import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from odradek.text.terminal import json_line, neutralise


class OutputFormat(StrEnum):
    TABLE = "table"
    JSON = "json"


def print_json(value: Any) -> None:
    print(json_line(value))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table. Numbers are right-aligned; cells are printed without markup and control characters."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    all_rows = [list(row) for row in rows]
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for index, name in enumerate(columns):
        cells = [row[index] for row in all_rows if row[index] is not None]
        numbers = bool(cells) and all(isinstance(cell, int | float) for cell in cells)
        table.add_column(Text(name), justify="right" if numbers else "left", overflow="fold", no_wrap=index == 0)
    for row in all_rows:
        table.add_row(*(Text(neutralise(_cell(value))) for value in row))
    # A pipe has no width, so lines must not be folded there.
    Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 10_000).print(table)


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.1f}"
        case tuple() | list():
            return ",".join(str(item) for item in value) or "-"
    return str(value)

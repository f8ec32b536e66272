"""A bar for long work, on standard error and only for a person: where no terminal is, nothing is drawn.

rich is imported only then.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from odradek.text.terminal import is_terminal

Advance = Callable[[int], None]
Reach = Callable[[int, int], None]


@contextmanager
def progress(what: str, total: int | None, *, unit: str, wanted: bool = True) -> Iterator[Advance]:
    """Yields what is called with each step's amount. `total` None: how much it will be is not known. `unit` "bytes"
    is shown as kB and MB, anything else as it is counted.
    """
    if not wanted or not is_terminal(sys.stderr):
        yield lambda amount: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TransferSpeedColumn,
    )

    amounts = (DownloadColumn(), TransferSpeedColumn()) if unit == "bytes" else (MofNCompleteColumn(), TextColumn(unit))
    columns = (TextColumn("{task.description}"), BarColumn(), *amounts, TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda amount: bar.advance(task, amount)


@contextmanager
def gauge(what: str, *, wanted: bool = True) -> Iterator[Reach]:
    """A bar for bytes that others move: yields what is called with how many there are now, and of how many."""
    if not wanted or not is_terminal(sys.stderr):
        yield lambda reached, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda reached, total: bar.update(task, completed=reached, total=total)

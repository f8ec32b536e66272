"""Progress bars on standard error. Without a terminal nothing is drawn and rich is not imported."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from odradek.text.terminal import is_terminal

Advance = Callable[[int], None]
Reach = Callable[[int, int], None]


@contextmanager
def progress(what: str, total: int | None, *, unit: str, wanted: bool = True) -> Iterator[Advance]:
    """Yield a function to call with the amount of each step.

    `total` is None if the total is unknown. The unit "bytes" is shown as kB and MB, any other unit as a count.
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
    """Yield a function to call with the bytes copied so far and the total, for work that other processes do."""
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

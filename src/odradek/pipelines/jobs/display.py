"""Displays a job's progress: a live table in a terminal, otherwise one line per batch, or JSON."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from odradek.pipelines.jobs.progress import Progress
from odradek.text.output import OutputFormat, print_json
from odradek.text.terminal import is_terminal, say
from odradek.text.times import format_span

if TYPE_CHECKING:
    from rich.console import Group

Show = Callable[[Progress], None]

_PARTITIONS_SHOWN_MAX: Final = 20


@contextmanager
def progress_display(what: str, format: OutputFormat) -> Iterator[Show]:
    """Yield a function to call after each batch."""
    if format is OutputFormat.JSON:
        yield lambda progress: print_json({"event": "batch", **progress.to_json()})
    elif not is_terminal(sys.stderr):
        yield lambda progress: say(f"{what}: {summary(progress)}")
    else:
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(stderr=True), transient=True, auto_refresh=False) as live:
            yield lambda progress: live.update(_picture(what, progress), refresh=True)


def summary(progress: Progress) -> str:
    parts = [f"{progress.rows:,} row{'' if progress.rows == 1 else 's'}"]
    if progress.dead_letters:
        parts.append(f"{progress.dead_letters:,} dead letter{'' if progress.dead_letters == 1 else 's'}")
    if progress.left_out:
        parts.append(f"{progress.left_out:,} dropped")
    if progress.rows_per_second is not None:
        parts.append(f"{progress.rows_per_second:,.0f} records/s")
    parts.append(f"lag {progress.lag:,}")
    if progress.lag and progress.seconds_left is not None:
        parts.append(f"{format_span(int(progress.seconds_left * 1000))} left")
    return ", ".join(parts)


def finish(what: str, progress: Progress, format: OutputFormat, *, interrupted: bool) -> None:
    if format is OutputFormat.JSON:
        print_json({"event": "stopped" if interrupted else "done", **progress.to_json()})
    else:
        say(f"{what}: {'stopped' if interrupted else 'done'}, {summary(progress)}")


def _picture(what: str, progress: Progress) -> "Group":
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("partition", "offset", "end", "lag"):
        table.add_column(name, justify="right")
    shown: Any = sorted(progress.partitions, key=lambda one: -one.lag)[:_PARTITIONS_SHOWN_MAX]
    for one in sorted(shown, key=lambda one: one.partition):
        table.add_row(str(one.partition), f"{one.offset:,}", f"{one.end:,}", f"{one.lag:,}")
    if len(progress.partitions) > len(shown):
        table.add_row(f"+{len(progress.partitions) - len(shown)}", "…", "…", "…")
    return Group(table, Text(f"{what}: {summary(progress)}"))

"""Displays a pipeline's progress: a live table in a terminal, otherwise one line per batch, or JSON."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from odradek.pipelines.jobs.pipeline.status import PipelineStatus, QueryStatus
from odradek.pipelines.jobs.status_file import RUNNING
from odradek.text.output import OutputFormat, print_json, print_table
from odradek.text.terminal import is_terminal, say
from odradek.text.times import format_span, format_time

_COLUMNS = ("sink", "batch", "records", "records/s", "dead letters", "lag", "left")


@contextmanager
def pipeline_display(format: OutputFormat) -> Iterator[Callable[[PipelineStatus], None]]:
    if format is OutputFormat.JSON:
        yield lambda status: print_json(status.to_json())
    elif not is_terminal(sys.stderr):
        yield lambda status: say("; ".join(_line(one) for one in status.queries if one.batch is not None))
    else:
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.live import Live
        from rich.table import Table

        def table(status: PipelineStatus) -> Table:
            found = Table(box=SIMPLE_HEAD, pad_edge=False)
            for name in _COLUMNS:
                found.add_column(name, justify="left" if name == "sink" else "right")
            for one in status.queries:
                found.add_row(*("-" if cell is None else str(cell) for cell in _cells(one)))
            return found

        with Live(console=Console(stderr=True), transient=True, auto_refresh=False) as live:
            yield lambda status: live.update(table(status), refresh=True)


def show_status(name: str, status: PipelineStatus | None, *, runs: bool, format: OutputFormat) -> None:
    if format is OutputFormat.JSON:
        print_json({"name": name, "runs": runs, **({} if status is None else status.to_json())})
        return
    if status is None:
        say(f"Pipeline {name} has not run yet.")
        return
    print_table(_COLUMNS, [_cells(one) for one in status.queries])
    state = status.state if runs or status.state != RUNNING else "ended unexpectedly"
    line = f"{name}: {state}, as of {format_time(status.at_ms)}" + (f", process {status.pid}" if runs else "")
    say(line + (f": {status.failure}" if status.failure else ""))


def _cells(one: QueryStatus) -> Sequence[object]:
    left = None if one.seconds_left is None or not one.lag else format_span(int(one.seconds_left * 1000))
    rate = None if one.records_per_second is None else round(one.records_per_second)
    return one.name, one.batch, one.records, rate, one.dead_letters, one.lag, left


def _line(one: QueryStatus) -> str:
    letters = f", {one.dead_letters:,} dead letter{'' if one.dead_letters == 1 else 's'}" if one.dead_letters else ""
    return f"{one.name}: batch {one.batch}, {one.records:,} records{letters}, lag {one.lag:,}"

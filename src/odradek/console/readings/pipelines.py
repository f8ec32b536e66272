"""Rows for pipelines and jobs: state and query progress."""

from collections.abc import Sequence

from odradek.console.queries.pipelines import PipelineSeen, QuerySeen
from odradek.console.readings.table import Cell, Column, Row, Tone, inert
from odradek.text.times import format_span, format_time

START = "Start"
STOP = "Stop"

COLUMNS = (
    Column("pipeline", "Pipeline or job"),
    Column("state", "State"),
    Column("query", "Query"),
    Column("records", "Records", is_number=True),
    Column("rate", "Records/s", is_number=True),
    Column("lag", "Lag", is_number=True),
    Column("left", "Time to catch up", is_number=True),
    Column("letters", "Dead letters", is_number=True),
    Column("seen", "Updated"),
)

_TONES = {
    "running": Tone.GOOD,
    "done": Tone.GOOD,
    "failed": Tone.BAD,
    "stopped unexpectedly": Tone.BAD,
    "unreadable": Tone.BAD,
}


def pipeline_rows(pipelines: Sequence[PipelineSeen]) -> list[Row]:
    """Returns one row per query; only the first row of a pipeline has actions."""
    rows = []
    for number, one in enumerate(pipelines):
        queries: Sequence[QuerySeen | None] = one.queries or (None,)
        for place, query in enumerate(queries):
            actions = ((STOP if one.is_running else START),) if place == 0 and one.state != "unreadable" else ()
            rows.append(Row(f"{number}:{query.name if query else ''}", _cells(one, query), actions))
    return rows


def problem_sentences(pipelines: Sequence[PipelineSeen]) -> str:
    return " ".join(f"{inert(one.name)}: {inert(one.problem).rstrip('.')}." for one in pipelines if one.problem)


def _cells(one: PipelineSeen, query: QuerySeen | None) -> dict[str, Cell | str]:
    return {
        "pipeline": inert(one.name),
        "state": Cell(one.state, tone=_TONES.get(one.state)),
        "query": inert(query.name) if query else "",
        "records": f"{query.records:,}" if query else "",
        "rate": f"{query.records_per_second:,.0f}" if query and query.records_per_second is not None else "",
        "lag": _lag(query),
        "left": _time_left(query),
        "letters": Cell(f"{query.dead_letters:,}", tone=Tone.WARNING if query.dead_letters else None) if query else "",
        "seen": "" if one.at_ms is None else format_time(one.at_ms),
    }


def _lag(query: QuerySeen | None) -> str:
    if query is None:
        return ""
    return f"{query.lag:,}" if query.lag_unit is None else f"{query.lag:,} {query.lag_unit}"


def _time_left(query: QuerySeen | None) -> str:
    if query is None or query.seconds_left is None:
        return ""
    return format_span(int(query.seconds_left * 1000))

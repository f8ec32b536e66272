"""The report as a self-contained HTML page with plots. Pure.

Keys are untrusted, so everything from records is escaped.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

from odradek.pipelines.jobs.skew.advice import SkewFindings, key_text
from odradek.text.amounts import format_bytes

_WIDTH: Final = 900
_HEIGHT: Final = 180
_PARTITIONS_MAX: Final = 200
_ROWS_MAX: Final = 64
_ROW_HEIGHT: Final = 12
_LINES: Final = ("#2a6fbb", "#c8553d", "#3d8f5f", "#8a5aa8", "#b58a1b")
# The multiple of the mean that has full colour.
_FULL_COLOUR: Final = 4.0
_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 940px; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
svg { width: 100%; height: auto; background: #fafafa; } table { border-collapse: collapse; }
td, th { padding: .2rem .8rem .2rem 0; text-align: right; } td:first-child, th:first-child { text-align: left; }
code { word-break: break-all; } .advice { border-left: 4px solid #c8553d; padding-left: 1rem; }
"""


def page(findings: SkewFindings, made_at: datetime) -> str:
    summary = findings.summary
    advice = "".join(f"<p>{escape(one)}</p>" for one in findings.suggestions)
    parts = [
        f"<h1>Skew of {escape(findings.topic)}</h1>",
        f"<p>{summary.records:,} records in {findings.partition_count} partitions, {summary.without_key:,} without a "
        f"key. Created {made_at:%Y-%m-%d %H:%M} UTC.</p>",
        f'<div class="advice">{advice}</div>',
        "<h2>Partitions</h2>",
        _bars(findings),
        "<h2>Partitions over time</h2>",
        _heat(findings),
        "<h2>Keys over time</h2>",
        _lines(findings),
        "<h2>Hot keys</h2>",
        _keys(findings),
    ]
    title = f"Skew of {escape(findings.topic)}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body>\n{chr(10).join(parts)}\n</body></html>\n"
    )


def _bars(findings: SkewFindings) -> str:
    tallies = findings.summary.partitions
    shown = _fullest(findings, _PARTITIONS_MAX)
    most = max((tallies[one].records for one in shown if one in tallies), default=0) or 1
    mean = findings.summary.records / findings.partition_count
    width = _WIDTH / max(1, len(shown))
    drawn = []
    for place, number in enumerate(shown):
        records = tallies[number].records if number in tallies else 0
        height = _HEIGHT * records / most
        size = format_bytes(tallies[number].bytes) if number in tallies else "0 B"
        label = f"partition {number}: {records:,} records, {size}"
        drawn.append(_rect(place * width, _HEIGHT - height, max(0.5, width - 1), height, _LINES[0], 1.0, label))
    at = _HEIGHT - _HEIGHT * mean / most
    line = f'<line x1="0" x2="{_WIDTH}" y1="{at:.1f}" y2="{at:.1f}" stroke="#c8553d" stroke-dasharray="4"/>'
    left = "" if len(shown) == findings.partition_count else f", largest {len(shown)} only"
    return _svg(_HEIGHT, [*drawn, line]) + f"<p>Records per partition{left}. The dashed line is the mean.</p>"


def _heat(findings: SkewFindings) -> str:
    windows = findings.summary.windows
    if not windows:
        return "<p>No records.</p>"
    shown, first, last = _fullest(findings, _ROWS_MAX), min(windows), max(windows)
    width = _WIDTH / (last - first + 1)
    drawn = []
    for number, window in windows.items():
        mean = sum(window.partitions.values()) / findings.partition_count
        for row, partition in enumerate(shown):
            records = window.partitions.get(partition, 0)
            if records:
                label = f"{_time(number, findings)}, partition {partition}: {records:,} records"
                strength = min(1.0, records / mean / _FULL_COLOUR)
                x, y = (number - first) * width, row * _ROW_HEIGHT
                drawn.append(_rect(x, y, width, _ROW_HEIGHT - 1, _LINES[1], strength, label))
    label = (
        f"From {_time(first, findings)} to {_time(last + 1, findings)} in intervals of "
        f"{findings.summary.window_ms / 1000:,.0f} s. Rows are partitions {shown[0]} to {shown[-1]}. Full colour means "
        f"{_FULL_COLOUR:.0f} times the mean of the interval or more."
    )
    return _svg(len(shown) * _ROW_HEIGHT, drawn) + f"<p>{label}</p>"


def _lines(findings: SkewFindings) -> str:
    windows, keys = findings.summary.windows, findings.keys[: len(_LINES)]
    if not windows or not keys:
        return "<p>No keys.</p>"
    first, last = min(windows), max(windows)
    span = range(first, last + 1)
    counts = [[windows[n].keys.counts.get(one.key, 0) if n in windows else 0 for n in span] for one in keys]
    most = max((max(one) for one in counts), default=0) or 1
    step = _WIDTH / max(1, last - first)
    drawn, legend = [], []
    for one, colour, series in zip(keys, _LINES, counts, strict=False):
        points = " ".join(f"{n * step:.1f},{_HEIGHT - _HEIGHT * count / most:.1f}" for n, count in enumerate(series))
        drawn.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        legend.append(f'<span style="color:{colour}">■</span> <code>{escape(key_text(one.key))}</code>')
    return (
        _svg(_HEIGHT, drawn)
        + f"<p>{' &nbsp; '.join(legend)}. Lower bounds per interval; the top of the plot is {most:,} records.</p>"
    )


def _keys(findings: SkewFindings) -> str:
    if not findings.keys:
        return "<p>No keys.</p>"
    rows = "".join(
        f"<tr><td><code>{escape(key_text(one.key))}</code></td><td>{one.records:,}</td><td>{one.share:.1%}</td>"
        f"<td>{'' if one.partition is None else one.partition}</td></tr>"
        for one in findings.keys
    )
    missed = f"<p>Counts may be up to {findings.missed:,} too low.</p>" if findings.missed else ""
    return f"<table><tr><th>key</th><th>records</th><th>share</th><th>partition</th></tr>{rows}</table>{missed}"


def _fullest(findings: SkewFindings, most: int) -> Sequence[int]:
    tallies = findings.summary.partitions
    everyone: Iterable[int] = range(findings.partition_count)
    chosen = sorted(everyone, key=lambda one: -(tallies[one].records if one in tallies else 0))[:most]
    return sorted(chosen)


def _time(number: int, findings: SkewFindings) -> str:
    seconds = number * findings.summary.window_ms / 1000
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, OSError, ValueError):
        return f"second {seconds:,.0f}"


def _rect(x: float, y: float, width: float, height: float, colour: str, strength: float, label: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}" '
        f'fill-opacity="{strength:.2f}"><title>{escape(label)}</title></rect>'
    )


def _svg(height: float, drawn: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img">{"".join(drawn)}</svg>'

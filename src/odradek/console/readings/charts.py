"""Line charts as data, with a text description for screen readers."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from odradek.console.readings.health import clock_time
from odradek.text.amounts import format_bytes
from odradek.text.times import format_span

# Minimum gap between two samples at which the line is interrupted.
_GAP_MS: Final = 30_000
_POINTS_MAX: Final = 240


@dataclass(frozen=True, slots=True)
class Sample:
    at_ms: int
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    name: str
    now: str
    path: str
    """SVG path in a 1000 by 100 view box."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    label: str
    most: str
    begin: str
    end: str
    lines: tuple[Line, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def throughput_chart(samples: Sequence[Sample]) -> Chart | None:
    """Bytes written and read by clients."""
    return chart_of("Throughput", ("Written", "Read"), samples, lambda rate: f"{format_bytes(rate)}/s")


def lag_chart(samples: Sequence[Sample]) -> Chart | None:
    return chart_of("Lag", ("Lag",), samples, lambda count: f"{int(count):,}")


def chart_of(
    title: str, names: Sequence[str], samples: Sequence[Sample], shown: Callable[[float], str]
) -> Chart | None:
    """Returns None for fewer than two samples."""
    if len(samples) < 2:
        return None
    kept = _downsample(samples)
    most = max(max(sample.values) for sample in kept)
    lines = tuple(
        Line(name=name, now=shown(kept[-1].values[index]), path=_path(kept, index, most))
        for index, name in enumerate(names)
    )
    span = format_span(kept[-1].at_ms - kept[0].at_ms)
    text = "; ".join(
        f"{line.name} now {line.now}, max {shown(max(sample.values[index] for sample in kept))}"
        for index, line in enumerate(lines)
    )
    return Chart(
        label=f"{title} of the last {span}: {text}",
        most=shown(most),
        begin=clock_time(kept[0].at_ms),
        end=clock_time(kept[-1].at_ms),
        lines=lines,
    )


def _downsample(samples: Sequence[Sample]) -> list[Sample]:
    """Downsamples by the maximum of neighbours, so that peaks remain visible."""
    step = -(-len(samples) // _POINTS_MAX)
    if step == 1:
        return list(samples)
    groups = (samples[start : start + step] for start in range(0, len(samples), step))
    return [
        Sample(group[-1].at_ms, tuple(map(max, zip(*(one.values for one in group), strict=True)))) for group in groups
    ]


def _path(samples: Sequence[Sample], index: int, most: float) -> str:
    began_ms, span_ms = samples[0].at_ms, max(1, samples[-1].at_ms - samples[0].at_ms)
    gap_ms = max(_GAP_MS, 4 * span_ms // len(samples))
    parts, before_ms = [], None
    for sample in samples:
        is_begun = before_ms is not None and sample.at_ms - before_ms <= gap_ms
        height = 100 - 96 * (sample.values[index] / most if most else 0) - 2
        parts.append(f"{'L' if is_begun else 'M'}{1000 * (sample.at_ms - began_ms) / span_ms:.0f} {height:.1f}")
        before_ms = sample.at_ms
    return " ".join(parts)

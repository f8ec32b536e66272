"""The chart of a run: the progress of each sink, and the orders per minute."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from examples.orders.generate import CATALOGUE_CENTS, ProductMinute, Totals


@dataclass(frozen=True, slots=True)
class Sample:
    """Progress of the orders at a time, in seconds since the start of the run."""

    seconds: float
    acknowledged: int
    landed: int
    aggregated: int


def save_plot(path: Path, samples: Sequence[Sample], totals: Mapping[ProductMinute, Totals]) -> None:
    figure = new_figure()
    progress, minutes = figure.subplots(1, 2)

    seconds = [sample.seconds for sample in samples]
    progress.plot(seconds, [sample.acknowledged for sample in samples], label="acknowledged by the broker")
    progress.step(seconds, [sample.landed for sample in samples], where="post", label="in Parquet")
    progress.step(seconds, [sample.aggregated for sample in samples], where="post", label="in the totals topic")
    progress.set(title="Orders through the pipeline", xlabel="seconds", ylabel="orders")
    progress.yaxis.set_major_formatter("{x:,.0f}")
    progress.grid(alpha=0.3)
    progress.legend()

    draw_minutes(minutes, totals)
    figure.savefig(path, dpi=120)


def new_figure() -> Any:
    # Without pyplot, which has global state and may need a display.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def draw_minutes(minutes: Any, totals: Mapping[ProductMinute, Totals]) -> None:
    times_ms = sorted({group.minute_ms for group in totals})
    labels = [datetime.fromtimestamp(time_ms / 1000, UTC) for time_ms in times_ms]
    bottom = [0] * len(times_ms)
    for product in CATALOGUE_CENTS:
        heights = [totals.get(ProductMinute(product, time_ms), Totals()).orders for time_ms in times_ms]
        minutes.bar(range(len(times_ms)), heights, bottom=bottom, label=product)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    step = max(1, len(times_ms) // 5)
    minutes.set_xticks(range(0, len(times_ms), step), [f"{label:%H:%M}" for label in labels[::step]])
    minutes.set(title="Orders per minute, read from the totals topic", xlabel="minute of the order (UTC)")
    minutes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), reverse=True)

"""The chart at the end: the number of orders at each stage, and the orders per minute."""

from collections.abc import Mapping
from pathlib import Path

from examples.orders.generate import ProductMinute, Totals
from examples.orders.plot import draw_minutes, new_figure


def save_plot(path: Path, counts: Mapping[str, int], totals: Mapping[ProductMinute, Totals]) -> None:
    figure = new_figure()
    places, minutes = figure.subplots(1, 2)
    bars = places.barh(list(counts), list(counts.values()))
    places.bar_label(bars, [f"{count:,}" for count in counts.values()], padding=3)
    places.invert_yaxis()
    places.margins(x=0.18)
    places.xaxis.set_major_formatter("{x:,.0f}")
    places.set(title="Orders by stage", xlabel="orders")
    draw_minutes(minutes, totals)
    figure.savefig(path, dpi=120)

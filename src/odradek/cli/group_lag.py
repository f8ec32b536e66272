"""Prints the lag of groups, with rates and a catch-up estimate, as tables or JSON."""

import time
from collections.abc import Sequence
from typing import Any, Final

from odradek.client.cluster import Cluster
from odradek.client.groups import GroupDescription
from odradek.client.lag import Lag, PartitionLag, Trend, lags_of, sample_offsets, total_of
from odradek.text.output import print_json, print_table
from odradek.text.progress import progress
from odradek.text.times import format_span

_STEP_S: Final = 0.25


def show_lag(cluster: Cluster, groups: Sequence[GroupDescription], *, interval_s: float, as_json: bool) -> None:
    """Take two samples, `interval_s` apart, or a single one if it is 0."""
    first = sample_offsets(cluster, groups, time.monotonic) if interval_s else None
    if first is not None:
        _wait(first.at_s + interval_s, interval_s)
    last = sample_offsets(cluster, groups, time.monotonic)
    found = [(group, lags_of(group, first, last)) for group in groups]
    if as_json:
        print_json([_as_json(group, lags) for group, lags in found])
    else:
        _print(found, with_rates=first is not None)


def _wait(until_s: float, interval_s: float) -> None:
    with progress("Measuring rates", int(interval_s / _STEP_S), unit="steps") as advance:
        while (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(_STEP_S, left_s))
            advance(1)


def _print(found: Sequence[tuple[GroupDescription, list[PartitionLag]]], *, with_rates: bool) -> None:
    rate_columns = ("consumed/s", "produced/s", "catch-up time") if with_rates else ()
    totals = [
        (group.id, group.state, len(lags), total.records, *(_rate_cells(total) if with_rates else ()))
        for group, lags in found
        for total in (total_of(lags),)
    ]
    print_table(("group", "state", "partitions", "lag", *rate_columns), totals)
    rows = [
        (
            *((group.id,) if len(found) > 1 else ()),
            one.partition.topic,
            one.partition.partition,
            one.committed,
            one.end,
            one.lag.records,
            *(_rate_cells(one.lag) if with_rates else ()),
            one.member and one.member.client_id,
            one.member and one.member.host,
        )
        for group, lags in found
        for one in lags
    ]
    if rows:
        columns = ("topic", "partition", "committed", "end", "lag", *rate_columns, "client", "host")
        print_table(("group", *columns) if len(found) > 1 else columns, rows)


def _rate_cells(lag: Lag) -> tuple[float | None, float | None, str | None]:
    if lag.rates is None:
        return None, None, lag.trend
    return lag.rates.consumed, lag.rates.produced, _estimate(lag)


def _estimate(lag: Lag) -> str | None:
    """Return the time until the group has caught up, or the trend if it will not."""
    if lag.trend is Trend.SHRINKS and lag.seconds_left is not None:
        return format_span(int(lag.seconds_left * 1000))
    return lag.trend


def _as_json(group: GroupDescription, lags: Sequence[PartitionLag]) -> dict[str, Any]:
    return {
        "group": group.id,
        "state": group.state,
        **_lag_as_json(total_of(lags)),
        "partitions": [
            {
                "topic": one.partition.topic,
                "partition": one.partition.partition,
                "committed": one.committed,
                "end": one.end,
                **_lag_as_json(one.lag),
                "member": one.member and one.member.id,
                "client": one.member and one.member.client_id,
                "host": one.member and one.member.host,
            }
            for one in lags
        ],
    }


def _lag_as_json(lag: Lag) -> dict[str, Any]:
    return {
        "lag": lag.records,
        "consumed_per_second": lag.rates and lag.rates.consumed,
        "produced_per_second": lag.rates and lag.rates.produced,
        "trend": lag.trend,
        "seconds_left": lag.seconds_left,
    }

"""Derives the ranges to read from a query's filters. Pure.

Spark still applies every filter to the rows, so the ranges may be too large, but never too small.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The records that may match the filters. None means no restriction."""

    partitions: frozenset[int] | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    first_timestamp_ms: int | None = None
    """There is no last timestamp, because earlier records may follow later ones."""

    def includes(self, partition: int) -> bool:
        return self.partitions is None or partition in self.partitions

    def offsets(self, start: int, end: int) -> tuple[int, int]:
        """Restrict a range. `end` is exclusive."""
        if self.first_offset is not None:
            start = max(start, self.first_offset)
        if self.last_offset is not None:
            end = min(end, self.last_offset + 1)
        return min(start, end), end


EVERYTHING: Final = Wanted()


def parse_filters(filters: Iterable[Filter]) -> Wanted:
    """Combine the filters on partitions, offsets and timestamps. Others are ignored."""
    wanted = EVERYTHING
    for one in filters:
        match one:
            case EqualTo(("partition",), value):
                wanted = _among(wanted, (value,))
            case In(("partition",), values):
                wanted = _among(wanted, values)
            case EqualTo(("offset",), value):
                wanted = _up_to(_from(wanted, value), value)
            case GreaterThan(("offset",), value):
                wanted = _from(wanted, value + 1)
            case GreaterThanOrEqual(("offset",), value):
                wanted = _from(wanted, value)
            case LessThan(("offset",), value):
                wanted = _up_to(wanted, value - 1)
            case LessThanOrEqual(("offset",), value):
                wanted = _up_to(wanted, value)
            case EqualTo(("timestamp",), value) | GreaterThan(("timestamp",), value):
                wanted = _since(wanted, value)
            case GreaterThanOrEqual(("timestamp",), value):
                wanted = _since(wanted, value)
    return wanted


def _among(wanted: Wanted, values: Iterable[Any]) -> Wanted:
    named = frozenset(values)
    return replace(wanted, partitions=named if wanted.partitions is None else wanted.partitions & named)


def _from(wanted: Wanted, offset: int) -> Wanted:
    return replace(wanted, first_offset=max(offset, wanted.first_offset or 0))


def _up_to(wanted: Wanted, offset: int) -> Wanted:
    return replace(wanted, last_offset=offset if wanted.last_offset is None else min(offset, wanted.last_offset))


def _since(wanted: Wanted, moment: Any) -> Wanted:
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        return wanted
    timestamp_ms = max((moment - _EPOCH) // timedelta(milliseconds=1), 0)
    return replace(wanted, first_timestamp_ms=max(timestamp_ms, wanted.first_timestamp_ms or 0))

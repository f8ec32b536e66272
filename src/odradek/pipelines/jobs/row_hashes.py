"""Hashes rows, to compare topics with tables. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import xxhash

_SIGN = 1 << 63


def row_hashes(columns: Sequence[Any]) -> list[int]:
    """Return signed 64-bit hashes, as Spark has no unsigned type. Equal rows have equal hashes."""
    return [_to_signed(xxhash.xxh3_64_intdigest(repr(row).encode(errors="surrogatepass"))) for row in _rows(columns)]


def _rows(columns: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    return zip(*(_plain(column).to_pylist() for column in columns), strict=True)


def _plain(column: Any) -> Any:
    """Convert timestamps to integers, because Spark and pyarrow may use different units."""
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _to_signed(number: int) -> int:
    return number - 2 * _SIGN if number >= _SIGN else number

"""One number for each row, by which rows of a topic and of a table are compared. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import xxhash

_SIGN = 1 << 63


def row_hashes(columns: Sequence[Any]) -> list[int]:
    """As signed 64-bit numbers, which is what Spark has. Equal rows have equal ones, wherever they were read."""
    return [_signed(xxhash.xxh3_64_intdigest(repr(row).encode(errors="surrogatepass"))) for row in _rows(columns)]


def _rows(columns: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    return zip(*(_plain(column).to_pylist() for column in columns), strict=True)


def _plain(column: Any) -> Any:
    """Without what Spark and pyarrow may write differently: times are numbers."""
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _signed(number: int) -> int:
    return number - 2 * _SIGN if number >= _SIGN else number

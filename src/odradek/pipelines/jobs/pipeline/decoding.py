"""Decodes a topic's records to rows of a stream. Records that do not fit are marked or stop the query."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

import odradek
from odradek.pipelines.jobs.columns import ORIGIN, columns_text, parse_columns
from odradek.pipelines.jobs.pipeline.source_values import SourceValues
from odradek.pipelines.jobs.rows import NewFields, RowDecoder
from odradek.pipelines.spark.version_check import check_version

# The columns for dead letters.
_LETTER: Final = pa.schema(
    [
        ("_value", pa.binary()),
        ("_headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("_error", pa.string()),
    ]
)
LETTER_COLUMNS: Final = tuple(_LETTER.names)
SOURCE_COLUMNS: Final = "key,value,topic,partition,offset,timestamp,headers"


def decoded_schema(schema: str) -> str:
    """Return Spark's schema text: origin, data and dead-letter columns."""
    return columns_text(pa.schema([*ORIGIN, *parse_columns(schema), *_LETTER]))


def decode_task(schema: str, values: SourceValues, *, keep_bad: bool) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a function for mapInArrow. Without `keep_bad`, the first bad record stops the query."""
    version = odradek.__version__

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        check_version(version)
        columns = parse_columns(schema)
        decoder = RowDecoder(columns, NewFields.IGNORE, values.reader())
        whole = pa.schema([*ORIGIN, *columns, *_LETTER])
        for batch in batches:
            decoded = decoder.decode(batch.column("value").to_pylist())
            if decoded.good:
                good = batch.take(pa.array(decoded.good))
                empty = [pa.nulls(good.num_rows, one.type) for one in _LETTER]
                yield pa.RecordBatch.from_arrays([*_origin(good), *decoded.arrays, *empty], schema=whole)
            if decoded.bad and not keep_bad:
                index, reason = decoded.bad[0]
                where = f"offset {batch.column('offset')[index]} of partition {batch.column('partition')[index]}"
                raise ValueError(
                    f"The record at {where} does not fit the schema: {reason}. Set dead_letters to a topic for such "
                    "records."
                )
            if decoded.bad:
                bad = batch.take(pa.array([index for index, _ in decoded.bad]))
                reasons = pa.array([reason.encode(errors="replace").decode() for _, reason in decoded.bad])
                letter = [bad.column("value"), bad.column("headers").cast(_LETTER.field("_headers").type), reasons]
                empty = [pa.nulls(bad.num_rows, one.type) for one in columns]
                yield pa.RecordBatch.from_arrays([*_origin(bad), *empty, *letter], schema=whole)

    return task


def _origin(batch: Any) -> list[Any]:
    named = [batch.column(name) for name in ("topic", "partition", "offset", "timestamp", "key")]
    return [column.cast(one.type) for column, one in zip(named, ORIGIN, strict=True)]

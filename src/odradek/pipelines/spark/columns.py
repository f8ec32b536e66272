"""Sends Spark's Arrow columns as records without creating Python objects for rows. Imports numba."""

import random
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odradek.base.ids import TopicPartition
from odradek.client.errors import UnknownPartition
from odradek.client.produce import BATCH_BYTES, Producer
from odradek.pipelines.arrow.writing import NO_PARTITION, encode_records, parts_of

# Spark's batches of 10,000 rows are small if they are spread over many partitions.
_GATHERED_BYTES: Final = 8 * 1024 * 1024


def merge_batches(batches: Iterable[Any]) -> Iterator[Any]:
    """Merge batches to a few megabytes, which are sent and acknowledged together."""
    held: list[Any] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        if sum(one.nbytes for one in held) >= _GATHERED_BYTES:
            yield _one_batch(held)
            held = []
    if held:
        yield _one_batch(held)


def _one_batch(batches: list[Any]) -> Any:
    if len(batches) == 1:
        return batches[0]
    (whole,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return whole


def times_ms(column: Any) -> Any:
    """Convert Spark's timestamps to integer milliseconds."""
    return column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())


def has_headers(batch: Any) -> bool:
    if "headers" not in batch.schema.names:
        return False
    column = batch.column("headers")
    return bool(column.null_count < len(column))


def send_columns(producer: Producer, batch: Any, topic: str | None) -> None:
    """Add the rows to the producer; the caller flushes. `topic` takes precedence over the column."""
    if topic is not None:
        _send(producer, batch, topic)
        return
    column = batch.column("topic")
    if column.null_count:
        raise ValueError("A row has a null topic. Set the option topic, or fill the topic column.")
    for name in column.unique().to_pylist():
        _send(producer, batch.filter(pc.equal(column, name)), name)


def _send(producer: Producer, batch: Any, topic: str) -> None:
    names, count = batch.schema.names, producer.partition_count(topic)
    keys = parts_of(batch.column("key") if "key" in names else None, batch.num_rows)
    values = parts_of(batch.column("value"), batch.num_rows)
    partitions = _partitions(batch, topic, count)
    unkeyed = random.randrange(count)
    for one in encode_records(keys, values, _times(batch), partitions, count, unkeyed, bytes_max=BATCH_BYTES):
        target = TopicPartition(topic, one.partition)
        producer.add_encoded(target, one.payload, one.record_count, one.base_timestamp, one.max_timestamp)


def _times(batch: Any) -> Any:
    """Return timestamps in ms. Rows without one get the current time."""
    now_ms = time.time_ns() // 1_000_000
    if "timestamp" not in batch.schema.names:
        return np.full(batch.num_rows, now_ms, np.int64)
    return times_ms(batch.column("timestamp")).fill_null(now_ms).to_numpy()


def _partitions(batch: Any, topic: str, count: int) -> Any:
    """Return the partitions that the rows specify. Raises UnknownPartition."""
    if "partition" not in batch.schema.names:
        return np.full(batch.num_rows, NO_PARTITION, np.int64)
    column = batch.column("partition")
    bounds = pc.min_max(column).as_py()
    for bound in (bounds["min"], bounds["max"]):
        if bound is not None and not 0 <= bound < count:
            raise UnknownPartition(topic, bound, count)
    return column.fill_null(NO_PARTITION).to_numpy().astype(np.int64)

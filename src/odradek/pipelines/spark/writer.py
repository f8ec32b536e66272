"""`write.format("odradek")`: writes rows to topics at least once, like Spark's Kafka sink.

A task is done when all its records are acknowledged. A repeated task sends them again.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from odradek.client.cluster import Cluster
from odradek.client.produce import Producer
from odradek.client.producer_transactions import TransactionHandle
from odradek.pipelines.spark.errors import OptionError
from odradek.pipelines.spark.options import ClientOptions
from odradek.pipelines.spark.row_schema import HEADER_TYPE
from odradek.pipelines.spark.topics import open_cluster
from odradek.records.compression import Compression
from odradek.records.record import Record

_BYTES_OR_TEXT = (BinaryType(), StringType())
_COLUMN_TYPES: dict[str, Sequence[DataType]] = {
    "key": _BYTES_OR_TEXT,
    "value": _BYTES_OR_TEXT,
    "topic": (StringType(),),
    "partition": (IntegerType(),),
    "headers": (HEADER_TYPE,),
    "timestamp": (TimestampType(),),
}


def check_rows(schema: StructType, topic: str | None) -> None:
    """Raises OptionError if the rows cannot be written as records."""
    types = {field.name: field.dataType for field in schema.fields}
    if "value" not in types:
        raise OptionError(f"Rows need a column named value. These have {', '.join(types)}.")
    if "topic" not in types and topic is None:
        raise OptionError("Rows need a column named topic, or the query the option topic.")
    for name, found in types.items():
        allowed = _COLUMN_TYPES.get(name)
        if allowed is None:
            raise OptionError(f"Column {name} is not part of a record. Records have {', '.join(_COLUMN_TYPES)}.")
        # Ignore the nullability of header fields.
        if found.simpleString() not in [one.simpleString() for one in allowed]:
            wanted = " or ".join(one.simpleString() for one in allowed)
            raise OptionError(f"Column {name} has type {found.simpleString()} but must have type {wanted}. Cast it.")


class TopicRows:
    """The common part of both writers. Sent to the tasks."""

    def __init__(self, client: ClientOptions, topic: str | None, compression: str) -> None:
        self._client = client
        self._topic = topic
        self._compression = compression

    def write(self, batches: Iterator[Any]) -> WriterCommitMessage:
        with open_cluster(self._client, is_known=True) as cluster:
            self.send(cluster, batches)
        return WriterCommitMessage()

    def send(self, cluster: Cluster, batches: Iterable[Any], transaction: TransactionHandle | None = None) -> None:
        """Return when all rows are acknowledged."""
        # Imports numba, which the driver does not need.
        from odradek.pipelines.spark.columns import has_headers, merge_batches, send_columns

        compression = Compression.from_name(self._compression)
        producer = Producer(cluster, compression=compression, transaction=transaction)
        for batch in merge_batches(batches):
            if has_headers(batch):
                for topic, partition, record in self._records(batch):
                    producer.add(topic, record, partition)
            else:
                send_columns(producer, batch, self._topic)
            producer.flush()

    def _records(self, batch: Any) -> Iterator[tuple[str, int | None, Record]]:
        """Convert row by row, for batches with headers."""
        from odradek.pipelines.spark.columns import times_ms

        nothing = [None] * batch.num_rows
        found = {name: batch.column(name) for name in _COLUMN_TYPES if name in batch.schema.names}
        if "timestamp" in found:
            found["timestamp"] = times_ms(found["timestamp"])
        columns = {name: found[name].to_pylist() if name in found else nothing for name in _COLUMN_TYPES}
        now_ms = time.time_ns() // 1_000_000
        for key, value, topic, partition, headers, time_ms in zip(*columns.values(), strict=True):
            target = self._topic or topic
            if target is None:
                raise ValueError("A row has a null topic. Set the option topic, or fill the topic column.")
            named = tuple((one["key"], one["value"]) for one in headers or ())
            record = Record(_bytes(key), _bytes(value), now_ms if time_ms is None else time_ms, named)
            yield target, partition, record


def _bytes(part: str | bytes | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, rows: TopicRows) -> None:
        self._rows = rows

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self._rows.write(iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, rows: TopicRows) -> None:
        self._rows = rows

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self._rows.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to do: the tasks have written everything."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to do: written records stay (at least once)."""

"""Converts the payloads of record batches to Arrow record batches of bounded size.

The payloads are of one partition, and their CRCs have been checked. Returned buffers are never reused.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy
import pyarrow as pa

from odradek.base.ids import TopicPartition
from odradek.pipelines.arrow import kernels
from odradek.pipelines.arrow.schema import HEADERS, KEY, OFFSET, PARTITION, TIMESTAMP, TIMESTAMP_TYPE, TOPIC, VALUE
from odradek.records.kernels import INT64_MAX, INT64_MIN
from odradek.records.record import InvalidRecords

BATCH_ROWS = 65_536
BATCH_BYTES = 16 * 1024 * 1024
# Offsets of Arrow's binary columns have 31 bits, and a batch may exceed its size by one record.
BATCH_BYTES_MAX = 512 * 1024 * 1024

_MICROSECONDS = 1_000


class Payload(NamedTuple):
    """The bytes of some batches, and for each batch a row of `kernels.BATCH_FIELDS` numbers."""

    data: Any
    batches: Any


class _Piece(NamedTuple):
    """Rows of one payload. `last` is exclusive."""

    data: Any
    first: int
    last: int


class Assembler:
    """`schema` has a subset of the columns of `arrow_schema`. Timestamps are in milliseconds or microseconds."""

    def __init__(
        self,
        schema: Any,
        partition: TopicPartition,
        *,
        from_offset: int = 0,
        to_offset: int = INT64_MAX,
        rows_max: int = BATCH_ROWS,
        bytes_max: int = BATCH_BYTES,
    ) -> None:
        if rows_max < 1 or not 0 < bytes_max <= BATCH_BYTES_MAX:
            raise ValueError(f"A batch needs at least one row and at most {BATCH_BYTES_MAX} bytes.")
        self._schema = schema
        self._partition = partition
        self._offset_range = (from_offset, to_offset)
        self._measure = (rows_max, bytes_max)
        self._cursor = numpy.zeros(kernels.CURSOR_FIELDS, numpy.int64)
        self._offsets = numpy.empty(rows_max, numpy.int64)
        self._timestamps = numpy.empty(rows_max, numpy.int64)
        self._timestamp_types = numpy.empty(rows_max, numpy.int32)
        self._starts = {name: numpy.empty(rows_max, numpy.int64) for name in (KEY, VALUE, HEADERS)}
        self._lengths = {name: numpy.empty(rows_max, numpy.int32) for name in (KEY, VALUE)}
        self._pieces: list[_Piece] = []
        # Every row has the same value: build the column once and slice it for each batch.
        self._constants = {
            TOPIC: pa.repeat(pa.scalar(partition.topic, pa.string()), rows_max if TOPIC in schema.names else 0),
            PARTITION: pa.repeat(pa.scalar(partition.partition, pa.int32()), rows_max),
        }

    def add(self, payload: Payload) -> Iterator[Any]:
        """Add the records and yield the batches that become full. Raises InvalidRecords."""
        cursor = self._cursor
        cursor[: kernels.AT_DELTA + 1] = 0
        while True:
            first = int(cursor[kernels.FILLED_ROWS])
            status = kernels.index_rows(
                payload.data,
                payload.batches,
                cursor,
                *self._measure,
                *self._offset_range,
                self._offsets,
                self._timestamps,
                self._timestamp_types,
                self._starts[KEY],
                self._lengths[KEY],
                self._starts[VALUE],
                self._lengths[VALUE],
                self._starts[HEADERS],
            )
            last = int(cursor[kernels.FILLED_ROWS])
            if last > first:
                self._pieces.append(_Piece(payload.data, first, last))
            if status == kernels.DONE:
                return
            if status != kernels.FULL:
                raise self._invalid(status, payload)
            yield self._take()

    def finish(self) -> Iterator[Any]:
        """Yield the last, incomplete batch, if there is one."""
        if self._cursor[kernels.FILLED_ROWS]:
            yield self._take()

    def _take(self) -> Any:
        rows = int(self._cursor[kernels.FILLED_ROWS])
        arrays = [self._column(field, rows) for field in self._schema]
        self._cursor[kernels.FILLED_ROWS] = self._cursor[kernels.FILLED_BYTES] = 0
        self._pieces.clear()
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, field: Any, rows: int) -> Any:
        if field.name in (KEY, VALUE):
            return self._binary(field.name, field.type, rows)
        if field.name == HEADERS:
            return self._headers(field.type, rows)
        if field.name in self._constants:
            return self._constants[field.name].slice(0, rows)
        if field.name == OFFSET:
            return _numbers(self._offsets[:rows], field.type)
        if field.name == TIMESTAMP:
            return _numbers(self._in_unit(self._timestamps[:rows], field.type.unit), field.type)
        assert field.name == TIMESTAMP_TYPE
        return _numbers(self._timestamp_types[:rows], field.type)

    def _binary(self, name: str, kind: Any, rows: int) -> Any:
        starts, lengths = self._starts[name], self._lengths[name]
        is_there = lengths[:rows] >= 0
        size = int(lengths[:rows].sum(where=is_there, dtype=numpy.int64))
        ends, output = _new_offsets(rows), pa.allocate_buffer(size)
        filled = 0
        for piece in self._pieces:
            filled = kernels.copy_parts(
                piece.data, starts, lengths, piece.first, piece.last, ends, _writable(output), filled
            )
        return pa.Array.from_buffers(kind, rows, [_validity(is_there), pa.py_buffer(ends), output])

    def _headers(self, kind: Any, rows: int) -> Any:
        """Records without headers have null, not an empty list."""
        starts = self._starts[HEADERS]
        counts = numpy.empty(rows, numpy.int32)
        totals = numpy.zeros(3, numpy.int64)
        for piece in self._pieces:
            kernels.measure_headers(piece.data, starts, piece.first, piece.last, counts, totals)
        count, name_bytes, value_bytes = map(int, totals)
        name_ends, names = _new_offsets(count), pa.allocate_buffer(name_bytes)
        value_ends, values = _new_offsets(count), pa.allocate_buffer(value_bytes)
        value_is_there = numpy.empty(count, numpy.bool_)
        at = 0
        for piece in self._pieces:
            at = kernels.copy_headers(
                piece.data,
                starts,
                piece.first,
                piece.last,
                name_ends,
                _writable(names),
                value_ends,
                _writable(values),
                value_is_there,
                at,
            )
        struct = kind.value_type
        columns = [
            _text(pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(name_ends), names])),
            pa.Array.from_buffers(pa.binary(), count, [_validity(value_is_there), pa.py_buffer(value_ends), values]),
        ]
        entries = pa.StructArray.from_arrays(columns, fields=list(struct))
        list_ends = _new_offsets(rows)
        numpy.cumsum(counts, out=list_ends[1:])
        return pa.Array.from_buffers(kind, rows, [_validity(counts > 0), pa.py_buffer(list_ends)], children=[entries])

    def _in_unit(self, milliseconds: Any, unit: str) -> Any:
        if unit == "ms":
            return milliseconds
        assert unit == "us"
        beyond = (milliseconds > INT64_MAX // _MICROSECONDS) | (milliseconds < INT64_MIN // _MICROSECONDS)
        if beyond.any():
            row = int(beyond.argmax())
            raise InvalidRecords(
                f"{self._partition}: the record at offset {self._offsets[row]} has timestamp {milliseconds[row]}, "
                "which is out of range in microseconds"
            )
        return milliseconds * _MICROSECONDS

    def _invalid(self, status: int, payload: Payload) -> InvalidRecords:
        batch, record = int(self._cursor[kernels.AT_BATCH]), int(self._cursor[kernels.AT_RECORD])
        offset = int(payload.batches[batch, kernels.BASE_OFFSET])
        what = {
            kernels.MALFORMED: f"record {record} is malformed",
            kernels.MORE_BYTES: "there are bytes after its last record",
            kernels.OFFSETS_DISORDERED: f"record {record} has an offset that is out of order",
        }[status]
        return InvalidRecords(f"{self._partition}: in the batch at offset {offset}, {what}")


def _numbers(values: Any, kind: Any) -> Any:
    """Copy the values, because the caller reuses its buffer."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values.tobytes())])


def _new_offsets(rows: int) -> Any:
    ends = numpy.empty(rows + 1, numpy.int32)
    ends[0] = 0
    return ends


def _writable(output: Any) -> Any:
    return numpy.frombuffer(output, numpy.uint8) if output.size else numpy.empty(0, numpy.uint8)


def _validity(is_there: Any) -> Any:
    return None if is_there.all() else pa.py_buffer(numpy.packbits(is_there, bitorder="little").tobytes())


def _text(names: Any) -> Any:
    """Replace invalid UTF-8, as Java does."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([str(name.as_buffer(), "utf-8", "replace") for name in names], pa.string())

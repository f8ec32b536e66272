"""Walking the records of a batch: compiled by numba where it is installed and loaded, interpreted otherwise.

Both ways run the same source, `kernels.py`. Loading numba takes a second and tens of megabytes, so it never happens by
import, and never on the event loop: whoever works in a thread asks for `compiled_walk` or `thread_walk`.
"""

from array import array
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from typing_extensions import Buffer

from odradek.records import kernels
from odradek.records.batch import BatchHeader
from odradek.records.record import InvalidRecords

# From this many records on, loading numba pays off within a few batches.
_WORTH_COMPILING_RECORDS = 2_000
_COLUMN_RECORDS = 16_384


class RecordsSummary(NamedTuple):
    max_timestamp: int
    offsets_consecutive: bool
    refused_records: int


class RecordColumns:
    """Some consecutive records of one batch, field by field; row `i` counts up to `count`, what is behind is stale.

    Positions are those in the payload. A null key or value has length -1. `start` is where the first record begins,
    each other one begins where the one before it ends. `flags` is for the user of the columns to mark rows in.
    """

    __slots__ = (
        "count",
        "ends",
        "flags",
        "key_lengths",
        "key_starts",
        "offset_deltas",
        "start",
        "timestamp_deltas",
        "value_lengths",
    )

    def __init__(self, new_column: Callable[[int], Any], flags: Any) -> None:
        self.count = 0
        self.start = 0
        self.ends = new_column(_COLUMN_RECORDS)
        self.timestamp_deltas = new_column(_COLUMN_RECORDS)
        self.offset_deltas = new_column(_COLUMN_RECORDS)
        self.key_starts = new_column(_COLUMN_RECORDS)
        self.key_lengths = new_column(_COLUMN_RECORDS)
        self.value_lengths = new_column(_COLUMN_RECORDS)
        self.flags = flags


class Walk:
    """One of the two ways. The payload of a batch is what `decode.records_payload` gives."""

    def __init__(
        self,
        *,
        is_compiled: bool,
        compile_kernel: Callable[[Callable[..., Any]], Callable[..., Any]],
        as_array: Callable[[memoryview], Any],
        as_output: Callable[[bytearray], Any],
        new_column: Callable[[int], Any],
    ) -> None:
        self.is_compiled = is_compiled
        # What the kernels take for a payload, an output and a column of integers.
        self.as_array = as_array
        self.as_output = as_output
        self.new_column = new_column
        self._check_records = compile_kernel(kernels.check_records)
        self._index_records = compile_kernel(kernels.index_records)
        self.copy_retained = compile_kernel(kernels.copy_retained)
        self.rebase_records = compile_kernel(kernels.rebase_records)

    def check(
        self,
        payload: Buffer,
        header: BatchHeader,
        *,
        earliest: int = kernels.INT64_MIN,
        latest: int = kernels.INT64_MAX,
        keys_required: bool = False,
    ) -> RecordsSummary:
        """Raises InvalidRecords where the bytes are not the records that the header declares."""
        summary = self.new_column(kernels.SUMMARY_FIELDS)
        self._check_records(
            self.as_array(memoryview(payload).cast("B")),
            header.record_count,
            header.base_timestamp,
            max(earliest, kernels.INT64_MIN),
            min(latest, kernels.INT64_MAX),
            keys_required,
            summary,
        )
        status = int(summary[kernels.STATUS])
        if status != kernels.WELL_FORMED:
            raise _malformed(status, int(summary[kernels.AT_RECORD]))
        return RecordsSummary(
            int(summary[kernels.MAX_TIMESTAMP]),
            bool(summary[kernels.OFFSETS_CONSECUTIVE]),
            int(summary[kernels.REFUSED_RECORDS]),
        )

    def new_columns(self) -> RecordColumns:
        return RecordColumns(self.new_column, self.as_output(bytearray(_COLUMN_RECORDS)))

    def columns(
        self, payload: Buffer, header: BatchHeader, columns: RecordColumns | None = None
    ) -> Iterator[RecordColumns]:
        """The batch's records in runs of bounded length. Every run is the same object, filled anew."""
        view = memoryview(payload).cast("B")
        records = self.as_array(view)
        columns = columns or self.new_columns()
        position, seen = 0, 0
        while seen < header.record_count:
            columns.start = position
            columns.count = self._index_records(
                records,
                position,
                min(header.record_count - seen, _COLUMN_RECORDS),
                columns.ends,
                columns.timestamp_deltas,
                columns.offset_deltas,
                columns.key_starts,
                columns.key_lengths,
                columns.value_lengths,
            )
            if columns.count <= 0:
                raise _malformed(kernels.MALFORMED if columns.count else kernels.FEWER_RECORDS, seen)
            position = int(columns.ends[columns.count - 1])
            seen += columns.count
            yield columns
        if position != view.nbytes:
            raise _malformed(kernels.MORE_BYTES, seen)


class Retention:
    """Puts together those records of a batch that are kept, run by run of its columns."""

    def __init__(self, walk: Walk, payload: memoryview) -> None:
        self._walk = walk
        self._records = walk.as_array(payload)
        self._output = bytearray(payload.nbytes)
        self._totals = walk.new_column(kernels.TOTALS_FIELDS)

    def add(self, columns: RecordColumns) -> None:
        """Takes those rows of the columns that have a flag."""
        self._walk.copy_retained(
            self._records,
            columns.start,
            columns.count,
            columns.ends,
            columns.timestamp_deltas,
            columns.value_lengths,
            columns.flags,
            self._walk.as_output(self._output),
            self._totals,
        )

    @property
    def kept_records(self) -> int:
        return int(self._totals[kernels.KEPT_RECORDS])

    @property
    def kept_tombstones(self) -> int:
        return int(self._totals[kernels.KEPT_TOMBSTONES])

    @property
    def max_timestamp_delta(self) -> int:
        return int(self._totals[kernels.MAX_TIMESTAMP_DELTA])

    def payload(self) -> memoryview:
        return memoryview(self._output)[: int(self._totals[kernels.FILLED_BYTES])]

    def rebased_payload(self, shift_ms: int) -> memoryview:
        """The same with timestamps counted from a base that is `shift_ms` later."""
        payload = self.payload()
        output = bytearray(payload.nbytes + self.kept_records * kernels.REBASED_GROWTH_BYTES)
        filled = self._walk.rebase_records(
            self._walk.as_array(payload), self.kept_records, shift_ms, self._walk.as_output(output)
        )
        return memoryview(output)[:filled]


def _malformed(status: int, at_record: int) -> InvalidRecords:
    if status == kernels.FEWER_RECORDS:
        return InvalidRecords("Incorrect declared batch size, premature EOF reached")
    if status == kernels.MORE_BYTES:
        return InvalidRecords("Incorrect declared batch size, records still remaining in file")
    return InvalidRecords(f"Found invalid record structure in record {at_record} of the batch")


INTERPRETED_WALK = Walk(
    is_compiled=False,
    compile_kernel=lambda kernel: kernel,
    as_array=lambda view: view,
    as_output=memoryview,
    new_column=lambda size: array("q", bytes(8 * size)),
)


@cache
def compiled_walk() -> Walk | None:
    """None where numba is not installed. The first call loads it; each kernel compiles on first use, and is cached."""
    try:
        import numba
        import numpy
        from numba.extending import register_jitable
    except ImportError:
        return None

    for function in kernels.INNER_KERNELS:
        register_jitable(function)

    def as_array(view: memoryview) -> Any:
        # Read-only whatever it was, for one compilation to serve all. numpy refuses an empty buffer.
        return numpy.frombuffer(view.toreadonly() if view.nbytes else b"\0", numpy.uint8)[: view.nbytes]

    return Walk(
        is_compiled=True,
        compile_kernel=numba.njit(cache=True, nogil=True),
        as_array=as_array,
        as_output=lambda output: numpy.frombuffer(output or bytearray(1), numpy.uint8)[: len(output)],
        new_column=lambda size: numpy.zeros(size, numpy.int64),
    )


def thread_walk(record_count: int) -> Walk:
    """The way to take in a thread: compiled once it is loaded, and it is loaded when a batch is large enough."""
    if record_count < _WORTH_COMPILING_RECORDS and not compiled_walk.cache_info().currsize:
        return INTERPRETED_WALK
    return compiled_walk() or INTERPRETED_WALK

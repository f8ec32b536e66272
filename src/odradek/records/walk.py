"""Walks the records of a batch: compiled by numba if it is installed and loaded, otherwise interpreted.

Both run the same source, `kernels.py`. Loading numba takes a second and tens of megabytes, so it never happens on
import or on the event loop: code that runs in a thread calls `compiled_walk` or `thread_walk`.
"""

from array import array
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from typing_extensions import Buffer

from odradek.records import kernels
from odradek.records.batch import BatchHeader
from odradek.records.record import InvalidRecords

# With more records, loading numba pays off within a few batches.
_WORTH_COMPILING_RECORDS = 2_000
_COLUMN_RECORDS = 16_384


class RecordsSummary(NamedTuple):
    max_timestamp: int
    offsets_consecutive: bool
    rejected_records: int


class RecordColumns:
    """Consecutive records of one batch as columns; rows from `count` on are stale.

    Positions refer to the payload. A null key or value has length -1. `start` is the position of the first record;
    every other record starts where the previous one ends. Callers may mark rows in `flags`.
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

    @property
    def filled_by_kernel(self) -> tuple[Any, ...]:
        """In the order of the arguments of `kernels.index_records`."""
        return (
            self.ends,
            self.timestamp_deltas,
            self.offset_deltas,
            self.key_starts,
            self.key_lengths,
            self.value_lengths,
        )


class Walk:
    """A compiled or an interpreted walk. The payload of a batch comes from `decode.records_payload`."""

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
        # The types of payload, output and integer column that the kernels need.
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
        """Raises InvalidRecords if the bytes are not the records that the header declares."""
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
            raise _malformed_error(status, int(summary[kernels.AT_RECORD]))
        return RecordsSummary(
            int(summary[kernels.MAX_TIMESTAMP]),
            bool(summary[kernels.OFFSETS_CONSECUTIVE]),
            int(summary[kernels.REJECTED_RECORDS]),
        )

    def prepare(self) -> None:
        """Compiles the kernels of `check` and `columns`, so that their first use does not wait for that."""
        records, columns = self.as_array(memoryview(b"")), self.new_columns()
        summary = self.new_column(kernels.SUMMARY_FIELDS)
        self._check_records(records, 0, 0, kernels.INT64_MIN, kernels.INT64_MAX, False, summary)
        self._index_records(records, 0, 0, *columns.filled_by_kernel)

    def new_columns(self) -> RecordColumns:
        return RecordColumns(self.new_column, self.as_output(bytearray(_COLUMN_RECORDS)))

    def columns(
        self, payload: Buffer, header: BatchHeader, columns: RecordColumns | None = None
    ) -> Iterator[RecordColumns]:
        """The batch's records in chunks of bounded length. Every chunk is the same object, refilled."""
        view = memoryview(payload).cast("B")
        records = self.as_array(view)
        columns = columns or self.new_columns()
        position, seen = 0, 0
        while seen < header.record_count:
            columns.start = position
            limit = min(header.record_count - seen, _COLUMN_RECORDS)
            columns.count = self._index_records(records, position, limit, *columns.filled_by_kernel)
            if columns.count <= 0:
                raise _malformed_error(kernels.MALFORMED if columns.count else kernels.FEWER_RECORDS, seen)
            position = int(columns.ends[columns.count - 1])
            seen += columns.count
            yield columns
        if position != view.nbytes:
            raise _malformed_error(kernels.MORE_BYTES, seen)


class Retention:
    """Collects the retained records of a batch, chunk by chunk of its columns."""

    def __init__(self, walk: Walk, payload: memoryview) -> None:
        self._walk = walk
        self._records = walk.as_array(payload)
        self._output = bytearray(payload.nbytes)
        self._totals = walk.new_column(kernels.TOTALS_FIELDS)

    def add(self, columns: RecordColumns) -> None:
        """Adds the flagged rows of the columns."""
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
        """The payload with timestamp deltas relative to a base that is `shift_ms` later."""
        payload = self.payload()
        output = bytearray(payload.nbytes + self.kept_records * kernels.REBASED_GROWTH_BYTES)
        filled = self._walk.rebase_records(
            self._walk.as_array(payload), self.kept_records, shift_ms, self._walk.as_output(output)
        )
        return memoryview(output)[:filled]


def _malformed_error(status: int, at_record: int) -> InvalidRecords:
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
    """None if numba is not installed. The first call loads it; each kernel is compiled on first use and cached."""
    try:
        import numba
        import numpy
        from numba.extending import register_jitable
    except ImportError:
        return None

    for function in kernels.INNER_KERNELS:
        register_jitable(function)

    def as_array(view: memoryview) -> Any:
        # Always read-only, so that one compilation serves all. numpy does not accept an empty buffer.
        return numpy.frombuffer(view.toreadonly() if view.nbytes else b"\0", numpy.uint8)[: view.nbytes]

    return Walk(
        is_compiled=True,
        compile_kernel=numba.njit(cache=True, nogil=True),
        as_array=as_array,
        as_output=lambda output: numpy.frombuffer(output or bytearray(1), numpy.uint8)[: len(output)],
        new_column=lambda size: numpy.zeros(size, numpy.int64),
    )


def thread_walk(record_count: int) -> Walk:
    """The walk to use in a thread: compiled once numba is loaded, which a large batch triggers."""
    if record_count < _WORTH_COMPILING_RECORDS and not compiled_walk.cache_info().currsize:
        return INTERPRETED_WALK
    return compiled_walk() or INTERPRETED_WALK


def load_walk() -> Walk:
    """For a thread: loads and compiles the walk that the event loop may use afterwards. Interpreted without numba."""
    walk = compiled_walk() or INTERPRETED_WALK
    walk.prepare()
    return walk

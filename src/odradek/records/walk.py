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
_COLUMNS = 6


class RecordsSummary(NamedTuple):
    max_timestamp: int
    offsets_consecutive: bool
    refused_records: int


class RecordColumns:
    """Some consecutive records of one batch, field by field; row `i` counts up to `count`, what is behind is stale.

    Positions are those in the payload. A null key or value has length -1. `start` is where the first record begins,
    each other one begins where the one before it ends.
    """

    __slots__ = (
        "count",
        "ends",
        "key_lengths",
        "key_starts",
        "offset_deltas",
        "start",
        "timestamp_deltas",
        "value_lengths",
    )

    def __init__(self, new_column: Callable[[int], Any]) -> None:
        self.count = 0
        self.start = 0
        self.ends = new_column(_COLUMN_RECORDS)
        self.timestamp_deltas = new_column(_COLUMN_RECORDS)
        self.offset_deltas = new_column(_COLUMN_RECORDS)
        self.key_starts = new_column(_COLUMN_RECORDS)
        self.key_lengths = new_column(_COLUMN_RECORDS)
        self.value_lengths = new_column(_COLUMN_RECORDS)


class Walk:
    """One of the two ways. The payload of a batch is what `decode.records_payload` gives."""

    def __init__(
        self,
        *,
        is_compiled: bool,
        check_records: Callable[..., None],
        index_records: Callable[..., int],
        as_array: Callable[[memoryview], Any],
        new_column: Callable[[int], Any],
    ) -> None:
        self.is_compiled = is_compiled
        self.as_array = as_array
        self._check_records = check_records
        self._index_records = index_records
        self._new_column = new_column

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
        view = memoryview(payload).cast("B")
        summary = self._new_column(kernels.SUMMARY_FIELDS)
        self._check_records(
            self.as_array(view),
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

    def columns(self, payload: Buffer, header: BatchHeader) -> Iterator[RecordColumns]:
        """The batch's records in runs of bounded length. Every run is the same object, filled anew."""
        view = memoryview(payload).cast("B")
        records = self.as_array(view)
        columns = RecordColumns(self._new_column)
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


def _malformed(status: int, at_record: int) -> InvalidRecords:
    if status == kernels.FEWER_RECORDS:
        return InvalidRecords("Incorrect declared batch size, premature EOF reached")
    if status == kernels.MORE_BYTES:
        return InvalidRecords("Incorrect declared batch size, records still remaining in file")
    return InvalidRecords(f"Found invalid record structure in record {at_record} of the batch")


INTERPRETED_WALK = Walk(
    is_compiled=False,
    check_records=kernels.check_records,
    index_records=kernels.index_records,
    as_array=lambda view: view,
    new_column=lambda size: array("q", bytes(8 * size)),
)


@cache
def compiled_walk() -> Walk | None:
    """None where numba is not installed. The first call loads it, and compiles what no earlier run has compiled."""
    try:
        import numba
        import numpy
        from numba.extending import register_jitable
    except ImportError:
        return None

    for function in (
        kernels.read_varint,
        kernels.read_varlong,
        kernels.skip_headers,
        kernels.read_record,
        kernels.add_saturating,
    ):
        register_jitable(function)
    integer, flag = numba.int64, numba.boolean
    payload = numba.types.Array(numba.uint8, 1, "C", readonly=True)
    column = integer[::1]
    options: dict[str, Any] = {"cache": True, "nogil": True}

    def as_array(view: memoryview) -> Any:
        # numpy refuses an empty buffer, so nothing is a part of something.
        return numpy.frombuffer(view.toreadonly() if view.nbytes else b"\0", numpy.uint8)[: view.nbytes]

    return Walk(
        is_compiled=True,
        check_records=numba.njit(numba.void(payload, integer, integer, integer, integer, flag, column), **options)(
            kernels.check_records
        ),
        index_records=numba.njit(integer(payload, integer, integer, *[column] * _COLUMNS), **options)(
            kernels.index_records
        ),
        as_array=as_array,
        new_column=lambda size: numpy.empty(size, numpy.int64),
    )


def thread_walk(record_count: int) -> Walk:
    """The way to take in a thread: compiled once it is loaded, and it is loaded when a batch is large enough."""
    if record_count < _WORTH_COMPILING_RECORDS and not compiled_walk.cache_info().currsize:
        return INTERPRETED_WALK
    return compiled_walk() or INTERPRETED_WALK

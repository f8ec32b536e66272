"""Which transactions of a log were aborted, and from where on nothing is decided: read from the log's headers alone.

A directory has index files that say the same, but only the log itself cannot be behind the log.
"""

from collections.abc import Iterable
from typing import NamedTuple

from odradek.records.batch import BatchHeader, parse_header
from odradek.records.control import ControlType, control_type
from odradek.records.decode import decode_batch
from odradek.storage.log.transaction_index import AbortedTransaction


class TransactionOutcomes(NamedTuple):
    aborted: list[AbortedTransaction]
    first_open_offset: int | None
    """Of the transactions without an end, the begin of the first: readers of what is committed stop here."""
    end_offset: int


class ScannedBatch(NamedTuple):
    header: BatchHeader
    control: bytes | None
    """The whole batch, its CRC checked, if it is one of control records."""


def find_outcomes(batches: Iterable[ScannedBatch], log_start: int) -> TransactionOutcomes:
    begun: dict[int, int] = {}
    aborted: list[AbortedTransaction] = []
    end_offset = log_start
    for header, control in batches:
        end_offset = header.next_offset
        if not header.is_transactional:
            continue
        if control is None:
            begun.setdefault(header.producer_id, header.base_offset)
            continue
        first_offset = begun.pop(header.producer_id, None)
        if _is_abort(control) and first_offset is not None:
            aborted.append(AbortedTransaction(header.producer_id, first_offset, header.base_offset, 0))
    return TransactionOutcomes(aborted, min(begun.values(), default=None), end_offset)


def _is_abort(control: bytes) -> bool:
    records = decode_batch(control, parse_header(control))
    # Compaction leaves of a marker that nobody needs any more an empty batch.
    return bool(records) and control_type(records[0].key) is ControlType.ABORT

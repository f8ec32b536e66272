"""Finds aborted and open transactions by reading the batch headers of a log.

A directory also has transaction indexes, but these may be behind the log.
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
    """The start of the first open transaction: read_committed readers stop here (last stable offset)."""
    end_offset: int


class ScannedBatch(NamedTuple):
    header: BatchHeader
    control: bytes | None
    """The whole batch with a checked CRC, if it is a control batch."""


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
    # Compaction leaves an empty batch for a marker that is no longer needed.
    return bool(records) and control_type(records[0].key) is ControlType.ABORT

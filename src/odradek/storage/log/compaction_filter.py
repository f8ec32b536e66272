"""Decides what compaction retains of one batch: all records, some, an empty batch, or nothing.

Tombstones, and markers of transactions without data, are retained for delete.retention.ms after the first pass that
finds them. That pass writes the delete horizon into the batch in place of its base timestamp (KIP-534).
"""

from collections.abc import Mapping
from typing import NamedTuple

from odradek.records.batch import ATTRIBUTE_DELETE_HORIZON, BatchHeader, check_crc, parse_header
from odradek.records.builder import build_empty_batch, frame_batch
from odradek.records.decode import records_payload
from odradek.records.kernels import add_saturating
from odradek.records.walk import Retention, Walk
from odradek.storage.log.compaction_map import OffsetMap
from odradek.storage.log.compaction_transactions import CleanedTransactions
from odradek.storage.log.producer_state import ProducerState


class LastWrite(NamedTuple):
    """The last write of a producer: a batch that ends at `data_offset`, or (None) a marker of its epoch."""

    data_offset: int | None
    epoch: int


def last_writes(producers: ProducerState) -> dict[int, LastWrite]:
    """The last writes of the known producers: their last sequence number must stay in the log. Not thread-safe."""
    return {
        entry.producer_id: LastWrite(entry.last_offset if entry.last_offset >= 0 else None, entry.epoch)
        for entry in producers.producers.values()
    }


class Kept(NamedTuple):
    data: bytes | memoryview
    header: BatchHeader
    records: int


class BatchFilter:
    def __init__(
        self,
        walk: Walk,
        offset_map: OffsetMap,
        transactions: CleanedTransactions,
        producers: Mapping[int, LastWrite],
        *,
        end_offset: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        """`end_offset` is the end of the pass: the batch before it is retained, if only as an empty batch."""
        self._walk = walk
        self._columns = walk.new_columns()
        self._map = offset_map
        self._transactions = transactions
        self._producers = producers
        self._end_offset = end_offset
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms

    def keep(self, header: BatchHeader, data: memoryview) -> Kept | None:
        check_crc(data, header)
        if header.is_control:
            return self._keep_control(header, data)
        if self._transactions.is_aborted(header):
            return self._empty_batch(header)
        payload = records_payload(data, header)
        horizon_ms = header.delete_horizon_ms
        keep_tombstones = horizon_ms is None or self._now_ms < horizon_ms
        retention = Retention(self._walk, payload)
        for columns in self._walk.columns(payload, header, self._columns):
            self._map.flag_retained(payload, columns, header.base_offset, keep_tombstones)
            retention.add(columns)
        if not retention.kept_records:
            return self._empty_batch(header)
        sets_horizon = retention.kept_tombstones > 0 and horizon_ms is None
        if retention.kept_records == header.record_count and not sets_horizon:
            return Kept(data, header, header.record_count)
        return self._rebuild(data, retention, sets_horizon)

    def _keep_control(self, header: BatchHeader, data: memoryview) -> Kept | None:
        is_empty = self._transactions.is_empty_marker(header, data)
        horizon_ms = header.delete_horizon_ms
        if (is_empty and horizon_ms is not None and horizon_ms <= self._now_ms) or not header.record_count:
            return self._empty_batch(header)
        if not is_empty or horizon_ms is not None:
            return Kept(data, header, header.record_count)
        payload = records_payload(data, header)
        retention = Retention(self._walk, payload)
        for columns in self._walk.columns(payload, header, self._columns):
            for row in range(columns.count):
                columns.flags[row] = 1
            retention.add(columns)
        return self._rebuild(data, retention, sets_horizon=True)

    def _empty_batch(self, header: BatchHeader) -> Kept | None:
        """An empty batch if its offsets or its producer's last sequence have to be retained, otherwise nothing."""
        if header.next_offset != self._end_offset and not self._is_last_write(header):
            return None
        empty = build_empty_batch(header)
        return Kept(empty, parse_header(empty), 0)

    def _is_last_write(self, header: BatchHeader) -> bool:
        last_write = self._producers.get(header.producer_id) if header.has_producer_id else None
        if last_write is None:
            return False
        if last_write.data_offset is not None:
            return header.last_offset == last_write.data_offset
        return header.is_control and header.producer_epoch == last_write.epoch

    def _rebuild(self, original: memoryview, retention: Retention, sets_horizon: bool) -> Kept:
        """A batch of the retained records with the same offsets, sequence numbers and compression."""
        header = parse_header(original)
        if not header.timestamp_type_is_append:
            header.max_timestamp = add_saturating(header.base_timestamp, retention.max_timestamp_delta)
        if sets_horizon:
            horizon_ms = self._now_ms + self._delete_retention_ms
            payload = retention.rebased_payload(horizon_ms - header.base_timestamp)
            header.base_timestamp = horizon_ms
            header.attributes |= ATTRIBUTE_DELETE_HORIZON
        else:
            payload = retention.payload()
        header.record_count = retention.kept_records
        return Kept(frame_batch(payload, header), header, retention.kept_records)

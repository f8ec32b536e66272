"""Helpers of the compaction tests: a log to fill, a pass over it, and its readers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from odradek.base.ports import Disk
from odradek.records.batch import parse_batches
from odradek.records.builder import build_batch
from odradek.records.control import ControlType, control_type
from odradek.records.decode import decode_batch
from odradek.records.record import Record
from odradek.records.walk import INTERPRETED_WALK, Walk
from odradek.storage.log.compaction import Candidate, LogToClean, measure
from odradek.storage.log.compaction_filter import last_writes
from odradek.storage.log.compaction_pass import CompactionPass
from odradek.storage.log.compaction_replacement import SegmentReplacer, new_request
from odradek.storage.log.partition_log import PartitionLog
from tests.unit.storage.log.log_support import NOW_MS, LogBox, config, read_all

HASH_KEY = bytes(range(16))


class CompactedBox(LogBox):
    def __init__(self, directory: Path, disk: Disk | None = None, **configs: Any) -> None:
        values = {
            "compact": True,
            "cleanup_policy": frozenset({"compact"}),
            "segment_bytes": 1 << 20,
            "index_interval_bytes": 200,
            "delete_retention_ms": 1000,
        } | configs
        super().__init__(directory, disk, config=config(**values))

    def write(self, *records: tuple[bytes | None, bytes | None], timestamp: int = NOW_MS, **fields: Any) -> None:
        self.append(build_batch([Record(key, value, timestamp) for key, value in records], **fields))

    def damage_first_batch(self) -> None:
        with open(self.directory / "00000000000000000000.log", "r+b") as file:
            file.seek(65)
            file.write(b"\xff")

    def roll(self) -> None:
        self.log.roll(NOW_MS)

    def measure(
        self, *, clean_offset: int | None = None, now_ms: int = NOW_MS, stable_offset: int | None = None
    ) -> LogToClean:
        stable = self.log.last_stable_offset(self.log.log_end_offset) if stable_offset is None else stable_offset
        return measure(Candidate.of(self.log, stable_offset=stable, clean_offset=clean_offset), now_ms)

    def new_pass(
        self,
        *,
        walk: Walk = INTERPRETED_WALK,
        now_ms: int = NOW_MS,
        clean_offset: int | None = None,
        memory_bytes: int = 1 << 20,
    ) -> CompactionPass:
        to_clean = self.measure(clean_offset=clean_offset, now_ms=now_ms)
        request = new_request(
            to_clean,
            last_writes(self.log.producers),
            now_ms=now_ms,
            turn_bytes=1,
            hash_key=HASH_KEY,
            dedupe_buffer_bytes=memory_bytes,
            dedupe_buffer_load_factor=0.9,
        )
        self.replacer = SegmentReplacer(self.disk, to_clean, request)
        return CompactionPass(self.disk, request, walk)

    def compact(self, **options: Any) -> CompactionPass:
        cleaning = self.new_pass(**options)
        for step in cleaning.steps():
            if step.finished is not None:
                assert self.replacer.replace(step.finished)
        return cleaning


def all_records(log: PartitionLog) -> list[Record]:
    """All records of data batches, also of aborted transactions."""
    found: list[Record] = []
    for segment in log.segments:
        for _, header, data in segment.batches():
            if not header.is_control:
                found += decode_batch(data, header)
    return found


def committed_records(log: PartitionLog) -> list[Record]:
    """The records that a read_committed consumer sees, by the aborted transactions and the markers."""
    end = log.last_stable_offset(log.log_end_offset)
    aborted = sorted(log.aborted_transactions(log.log_start_offset, end), key=lambda one: one.first_offset)
    active: set[int] = set()
    found: list[Record] = []
    offset = log.log_start_offset
    while offset < end:
        read = log.read(offset, 1 << 20, end_offset_exclusive=end)
        for header in parse_batches(read.data):
            while aborted and aborted[0].first_offset <= header.last_offset:
                active.add(aborted.pop(0).producer_id)
            records = decode_batch(read.data, header)
            if header.is_control:
                if records and control_type(records[0].key) is ControlType.ABORT:
                    active.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in active):
                found += records
        offset = read.next_offset
    return found


def last_values(records: Sequence[Record]) -> dict[bytes, Record]:
    """The last record of each key, without tombstones."""
    latest = {record.key: record for record in records if record.key is not None}
    return {key: record for key, record in latest.items() if record.value is not None}


def offsets_of(log: PartitionLog) -> list[int]:
    return [record.offset for record in all_records(log)]


def batch_ranges(log: PartitionLog) -> list[tuple[int, int, int]]:
    return [(header.base_offset, header.last_offset, header.record_count) for header in read_all(log)]

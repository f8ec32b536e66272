"""Reads the files of a log, entry by entry. Files are opened read-only: they may belong to a running node.

Every reader yields plain dictionaries, in file order; `log` formats them.
"""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from odradek.base.ids import uuid_to_text
from odradek.base.ports import DiskFile
from odradek.client.record_text import json_bytes
from odradek.core.metadata.records import UnreadableRecord
from odradek.core.metadata.records import decode as decode_metadata
from odradek.host.disk import HostDisk, HostFile
from odradek.records.batch import HEADER_SIZE, BatchHeader, CorruptBatch, check_crc, parse_header
from odradek.records.compression import Compression
from odradek.records.control import decode_control
from odradek.records.decode import decode_batch
from odradek.records.record import InvalidRecords, Record
from odradek.storage.log import names
from odradek.storage.log.index_file import CorruptIndex, IndexFile
from odradek.storage.log.offset_index import OffsetIndex
from odradek.storage.log.producer_snapshots import CorruptSnapshot, decode_snapshot
from odradek.storage.log.time_index import TimeIndex
from odradek.storage.log.transaction_index import TransactionIndex
from odradek.text.errors import UserError
from odradek.wire.schemas import SerialError

CHECKPOINT_SUFFIX = ".checkpoint"
KINDS = (*names.SEGMENT_SUFFIXES, names.SNAPSHOT_SUFFIX, CHECKPOINT_SUFFIX)
_STATE_SUFFIXES = (names.DELETED_SUFFIX, names.CLEANED_SUFFIX, names.SWAP_SUFFIX)

Entry = dict[str, Any]
Advance = Callable[[int], None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """How much of a batch to decode."""

    records: bool
    metadata: bool
    """Decode values as metadata records."""


class ReadOnlyDisk(HostDisk):
    """A disk for readers that would otherwise open their file for writing."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> HostFile:
        return super().open(path, read_only=True)


def find_files(paths: list[Path]) -> list[Path]:
    """Return the given files and the log files of the given directories. Raises UserError if there are none."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted((one for one in path.iterdir() if one.is_file() and kind_of(one)), key=_reading_order)
            if not inside:
                raise UserError(f"No log files in {str(path)!r}. Specify a partition directory such as data/orders-0.")
            found += inside
        elif not path.exists():
            raise UserError(f"File not found: {str(path)!r}. Check the path.")
        elif kind_of(path) is None:
            raise UserError(f"{str(path)!r} is not a log file. Log files end with {', '.join(KINDS)}.")
        else:
            found.append(path)
    return found


def _reading_order(path: Path) -> tuple[str, int, str]:
    """Sort the files of a segment together, the log before its indexes."""
    return path.name.partition(".")[0], KINDS.index(kind_of(path) or ""), path.name


def kind_of(path: Path) -> str | None:
    name = path.name
    for suffix in _STATE_SUFFIXES:
        name = name.removesuffix(suffix)
    return next((kind for kind in KINDS if name.endswith(kind)), None)


def dump(path: Path, depth: Depth, advance: Advance) -> Iterator[Entry]:
    """Yield the entries of one file. An entry of kind `damage` is the last one and describes the corruption."""
    kind = kind_of(path)
    if kind in (names.LOG_SUFFIX, CHECKPOINT_SUFFIX):
        yield from _dump_batches(path, depth, advance)
        return
    try:
        if kind == names.OFFSET_INDEX_SUFFIX:
            yield from _dump_offset_index(path)
        elif kind == names.TIME_INDEX_SUFFIX:
            yield from _dump_time_index(path)
        elif kind == names.TRANSACTION_INDEX_SUFFIX:
            for aborted in TransactionIndex(ReadOnlyDisk(), str(path), _base_offset(path)).entries():
                yield {"kind": "aborted_transaction", **aborted._asdict()}
        else:
            yield from _dump_producers(path)
    except (CorruptIndex, CorruptSnapshot) as error:
        yield {"kind": "damage", "reason": str(error)}
    advance(path.stat().st_size)


def _dump_batches(path: Path, depth: Depth, advance: Advance) -> Iterator[Entry]:
    file = ReadOnlyDisk().open(str(path))
    try:
        position, size = 0, file.size()
        while position < size:
            try:
                header, data = _read_batch(file, position, size)
            except CorruptBatch as error:
                yield {"kind": "damage", "position": position, "bytes": size - position, "reason": error.message}
                return
            yield _batch_entry(header, data, position, depth)
            position += header.size
            advance(header.size)
    finally:
        file.close()


def _read_batch(file: DiskFile, position: int, size: int) -> tuple[BatchHeader, bytes]:
    head = file.read(position, HEADER_SIZE)
    if len(head) < HEADER_SIZE:
        raise CorruptBatch("the file ends inside a batch's header")
    header = parse_header(head)
    if header.size > size - position:
        raise CorruptBatch(f"the file ends inside a batch of {header.size} bytes")
    return header, file.read(position, header.size)


def _batch_entry(header: BatchHeader, data: bytes, position: int, depth: Depth) -> Entry:
    entry: Entry = {
        "kind": "batch",
        "position": position,
        "size": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "record_count": header.record_count,
        "leader_epoch": header.leader_epoch,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "timestamp_type": "LogAppendTime" if header.timestamp_type_is_append else "CreateTime",
        "compression": _codec(header),
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "delete_horizon": header.delete_horizon_ms,
        "crc": header.crc,
        "is_valid": True,
    }
    try:
        check_crc(data, header)
        if depth.records or header.is_control or depth.metadata:
            entry["records"] = [_record_entry(record, header, depth) for record in decode_batch(data, header)]
    except (CorruptBatch, InvalidRecords) as error:
        entry |= {"is_valid": False, "reason": error.message}
    return entry


def _codec(header: BatchHeader) -> str:
    try:
        return Compression(header.compression).name.lower()
    except ValueError:
        return f"unknown ({header.compression})"


def _record_entry(record: Record, header: BatchHeader, depth: Depth) -> Entry:
    entry: Entry = {"offset": record.offset, "timestamp": record.timestamp}
    if header.is_control:
        message = decode_control(record)
        return {**entry, "control": "unknown" if message is None else _message_as_json(message)}
    if depth.metadata and record.value is not None:
        try:
            return {**entry, "metadata": _message_as_json(decode_metadata(record.value))}
        except (UnreadableRecord, SerialError) as error:
            entry["unreadable"] = str(error)
    return {
        **entry,
        **json_bytes("key", record.key),
        **json_bytes("value", record.value),
        "headers": [{"name": name, **json_bytes("value", value)} for name, value in record.headers],
    }


def _message_as_json(message: Any) -> Entry:
    return {"type": type(message).__name__, **_as_json(message)}


def _as_json(value: Any) -> Any:
    """Convert structures to dictionaries, UUIDs to Kafka's text form, and bytes to text or base64."""
    if dataclasses.is_dataclass(value):
        plain: Entry = {}
        for field in dataclasses.fields(value):
            content = getattr(value, field.name)
            plain |= json_bytes(field.name, content) if isinstance(content, bytes) else {field.name: _as_json(content)}
        return plain
    if isinstance(value, tuple | list):
        return [_as_json(item) for item in value]
    return uuid_to_text(value) if isinstance(value, UUID) else value


def _dump_offset_index(path: Path) -> Iterator[Entry]:
    index = OffsetIndex(ReadOnlyDisk(), str(path), _base_offset(path), path.stat().st_size)
    log = path.with_name(names.offset_file(index.base_offset, names.LOG_SUFFIX))
    file = ReadOnlyDisk().open(str(log)) if log.exists() else None
    try:
        for slot in _used_slots(index):
            entry = index.entry(slot)
            agrees = None if file is None else _has_batch_at(file, entry.position, entry.offset)
            yield {"kind": "offset", **entry._asdict(), "agrees_with_log": agrees}
    finally:
        index.handle.release()
        if file is not None:
            file.close()


def _has_batch_at(file: DiskFile, position: int, last_offset: int) -> bool:
    """Return whether a batch with this last offset starts at the position, as the index entry claims."""
    try:
        return parse_header(file.read(position, HEADER_SIZE).ljust(HEADER_SIZE, b"\0")).last_offset == last_offset
    except CorruptBatch:
        return False


def _dump_time_index(path: Path) -> Iterator[Entry]:
    index = TimeIndex(ReadOnlyDisk(), str(path), _base_offset(path), path.stat().st_size)
    try:
        for slot in _used_slots(index):
            yield {"kind": "timestamp", **index.entry(slot)._asdict()}
    finally:
        index.handle.release()


def _used_slots(index: IndexFile) -> Iterator[int]:
    """Skip the zeros after the last entry: the index file of an active segment is preallocated."""
    index.load()
    for slot in range(index.entries):
        if not any(index.read_entry(slot)):
            return
        yield slot


def _dump_producers(path: Path) -> Iterator[Entry]:
    for producer in decode_snapshot(path.read_bytes(), str(path)):
        last = producer.batches[-1] if producer.batches else None
        yield {
            "kind": "producer",
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "coordinator_epoch": producer.coordinator_epoch,
            "last_sequence": last.last_sequence if last else -1,
            "last_offset": last.last_offset if last else -1,
            "last_timestamp": producer.last_timestamp,
            "transaction_first_offset": producer.transaction_first_offset,
        }


def _base_offset(path: Path) -> int:
    parsed = names.parse_offset_file(path.name)
    if parsed is None:
        raise UserError(
            f"{str(path)!r} is not named by a base offset. Expected a name such as 00000000000000000042.index."
        )
    return parsed.offset

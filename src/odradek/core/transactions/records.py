"""The records of `__transaction_state`, as Apache Kafka 4.3.1 writes them: one for each state of a transactional id."""

import struct
from dataclasses import field
from typing import ClassVar, Final, NamedTuple

from odradek.base.record_form import NestedForm, RecordForm, UnreadableRecord, form, read_record, write_record
from odradek.base.values import named_value
from odradek.core.transactions.commands import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

_VERSION: Final = struct.Struct(">h")
KEY_KIND: Final = 0


class UnknownKind(UnreadableRecord):
    """A type of record that this release does not use: the loader skips it."""


@named_value
class TransactionLogKey(RecordForm):
    FLEXIBLE_SINCE: ClassVar[int] = 1

    transactional_id: str = field(metadata=form("string"))


@named_value
class TopicInTransaction(NestedForm):
    topic: str = field(metadata=form("string"))
    partition_ids: tuple[int, ...] = field(metadata=form("int32"))


@named_value
class TransactionLogValue(RecordForm):
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 1

    producer_id: int = field(metadata=form("int64"))
    previous_producer_id: int = field(default=NO_PRODUCER_ID, metadata=form("int64", since=1, tag=0))
    next_producer_id: int = field(default=NO_PRODUCER_ID, metadata=form("int64", since=1, tag=1))
    producer_epoch: int = field(metadata=form("int16"))
    next_producer_epoch: int = field(default=NO_PRODUCER_EPOCH, metadata=form("int16", since=1, tag=3))
    transaction_timeout_ms: int = field(metadata=form("int32"))
    transaction_status: int = field(metadata=form("int8"))
    transaction_partitions: tuple[TopicInTransaction, ...] | None = field(metadata=form())
    transaction_last_update_timestamp_ms: int = field(metadata=form("int64"))
    transaction_start_timestamp_ms: int = field(metadata=form("int64"))
    client_transaction_version: int = field(default=0, metadata=form("int16", since=1, tag=2))


class TransactionRecord(NamedTuple):
    """`value` is None in a tombstone; `version` is the one the value is written in."""

    key: TransactionLogKey
    value: TransactionLogValue | None
    version: int = 0


def encode_key(record: TransactionRecord) -> bytes:
    result = bytearray(_VERSION.pack(KEY_KIND))
    write_record(result, record.key, 0)
    return bytes(result)


def encode_value(record: TransactionRecord) -> bytes | None:
    if record.value is None:
        return None
    result = bytearray(_VERSION.pack(record.version))
    write_record(result, record.value, record.version)
    return bytes(result)


def decode(key: bytes | None, value: bytes | None) -> TransactionRecord:
    if key is None or len(key) < _VERSION.size:
        raise UnreadableRecord("a record of a transaction without a key")
    (kind,) = _VERSION.unpack_from(key)
    if kind != KEY_KIND:
        raise UnknownKind(f"records of kind {kind} are unknown to this release")
    read_key = read_record(TransactionLogKey, 0, key, _VERSION.size)
    if value is None:
        return TransactionRecord(read_key, None)
    if len(value) < _VERSION.size:
        raise UnreadableRecord(f"the value of a TransactionLogKey has {len(value)} bytes")
    (version,) = _VERSION.unpack_from(value)
    if not 0 <= version <= TransactionLogValue.HIGHEST_VERSION:
        raise UnknownKind(f"TransactionLogValue version {version} is unknown to this release")
    return TransactionRecord(read_key, read_record(TransactionLogValue, version, value, _VERSION.size), version)

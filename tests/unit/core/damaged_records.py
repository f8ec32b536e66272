"""Decodes damaged records of every class and version. A process of its own: kio would abort it instead of raising.

Every position of every record gets the lengths that make kio allocate gigabytes, and a random part is changed. Only
the errors of an unreadable record are accepted.
"""

import dataclasses
import random
import resource
import sys
import typing
from collections.abc import Callable, Iterator
from functools import partial
from types import NoneType, UnionType
from typing import Any
from uuid import UUID

from odradek.base.record_form import UnreadableRecord, _fields_of, write_record
from odradek.core.groups import records as groups
from odradek.core.groups.records.codec import KEY_TYPES, VALUE_TYPES
from odradek.core.metadata import records as metadata
from odradek.core.transactions import records as transactions
from odradek.records.control import _MESSAGE_TYPES, decode_control, encode_control
from odradek.records.record import InvalidRecords, Record

# Compact lengths up to the largest, and the largest classic one, each in a few alignments.
LENGTHS = (
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x08",
    b"\xff\xff\xff\x7f",
    b"\x7f\xff\xff\xff",
    b"\x40\x00\x00\x00",
    b"\x80\x00\x00\x00",
)
MEMORY_BYTES_MAX = 1 << 30
ROUNDS = 100

Decode = Callable[[bytes], object]


def filled(shape: Any, version: int) -> Any:
    """A record in which every field of the version has a value, and every array has two elements."""
    return shape(**{known.name: _example(known.type, known.metadata, version) for known in _fields_of(shape, version)})


def _example(hint: Any, metadata_: Any, version: int) -> Any:
    if isinstance(hint, UnionType):
        hint = next(option for option in typing.get_args(hint) if option is not NoneType)
    if typing.get_origin(hint) is tuple:
        return (_example(typing.get_args(hint)[0], metadata_, version),) * 2
    if dataclasses.is_dataclass(hint):
        return filled(hint, version)
    return {str: "é-1", bytes: b"\x00\x01\x02", bool: True, UUID: UUID(int=3 << 100)}.get(hint, 1)


def examples() -> Iterator[tuple[str, bytes, Decode]]:
    for metadata_type in metadata.RECORD_TYPES.values():
        for version in range(metadata_type.HIGHEST_VERSION + 1):
            data = metadata.encode(_complete(metadata_type, version), version)
            yield f"{metadata_type.__name__} v{version}", data, metadata.decode
    for kind, key_type in KEY_TYPES.items():
        key = kind.to_bytes(2, "big") + _written(key_type, 0)
        yield key_type.__name__, key, partial(groups.decode, value=None)
        value_type = VALUE_TYPES[key_type]
        for version in range(value_type.HIGHEST_VERSION + 1):
            value = version.to_bytes(2, "big") + _written(value_type, version)
            yield f"{value_type.__name__} v{version}", value, partial(groups.decode, key)
    key = bytes(2) + _written(transactions.TransactionLogKey, 0)
    yield "TransactionLogKey", key, partial(transactions.decode, value=None)
    for version in range(transactions.TransactionLogValue.HIGHEST_VERSION + 1):
        value = version.to_bytes(2, "big") + _written(transactions.TransactionLogValue, version)
        yield f"TransactionLogValue v{version}", value, partial(transactions.decode, key)
    for message_types in _MESSAGE_TYPES.values():
        for version, message_type in enumerate(message_types):
            message = dataclasses.replace(filled(message_type, 0), version=version)
            record = encode_control(message, 0)
            assert record.value is not None
            yield f"{message_type.__name__} v{version}", record.value, partial(_decode_control, record)


def _decode_control(record: Record, data: bytes) -> object:
    return decode_control(record._replace(value=data))


def _written(record_type: Any, version: int) -> bytes:
    out = bytearray()
    write_record(out, _complete(record_type, version), version)
    return bytes(out)


def _complete(record_type: Any, version: int) -> Any:
    """Fields that the version lacks, but that have no default, get a value too."""
    missing = {
        known.name: _example(known.type, known.metadata, version)
        for known in dataclasses.fields(record_type)
        if known.default is dataclasses.MISSING
    }
    values = {known.name: _example(known.type, known.metadata, version) for known in _fields_of(record_type, version)}
    return record_type(**missing | values)


def damaged(data: bytes, chance: random.Random) -> Iterator[bytes]:
    for position in range(len(data) + 1):
        for length in LENGTHS:
            yield data[:position] + length + data[position + len(length) :]
            yield data[:position] + length + data[position:]
            yield data[:position] + length + data[position + 1 :]
    for _ in range(ROUNDS):
        changed = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(changed) or 1)
            match chance.randrange(4):
                case 0:
                    changed[place : place + 1] = bytes((chance.choice((0, 1, 0x7F, 0x80, 0xFF)),))
                case 1:
                    del changed[place : place + chance.randrange(8)]
                case 2:
                    changed[place:place] = chance.randbytes(chance.randrange(1, 8))
                case 3:
                    changed[place : place + 5] = chance.choice(LENGTHS)
        yield bytes(changed)


def main(seed: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    chance = random.Random(seed)
    classes = rejected = 0
    for name, data, decode in examples():
        # Names the record if the process is aborted.
        print(name, len(data), flush=True)
        decode(data)
        classes += 1
        for one in damaged(data, chance):
            try:
                decode(one)
            except (UnreadableRecord, InvalidRecords) as error:
                assert "\n" not in str(error), f"{error} has several lines"
                rejected += 1
    print(f"{classes} classes, {rejected} rejected")


if __name__ == "__main__":
    main(int(sys.argv[1]))

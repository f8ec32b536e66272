"""Validates the layout of a request, response or record before kio decodes it: no length may exceed the message.

kio trusts the lengths it reads: an array that announces a billion elements makes it allocate the memory, which kills
the process. The walk follows the schema without building anything. It rejects an array with more elements than the rest
of the message can hold, so that the memory of a decoded message is proportional to its size. Where Kafka is lenient and
kio is not, the walk returns a repaired copy: it removes unknown tagged fields, takes any boolean but 0 as true and any
negative length as null, and replaces bytes that are not UTF-8 by U+FFFD.

It knows the layout of messages, and nothing of their meaning.
"""

import dataclasses
import struct
import typing
from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, TypeVar

from kio.serial import entity_reader
from kio.serial.errors import SerialError

from odradek.base.varints import read_unsigned_varint, write_unsigned_varint

Data = bytes | memoryview
# Start, end, and the replacement.
Repair = tuple[int, int, bytes]
# Of every string of a request or response, in either encoding.
STRING_BYTES_MAX: Final = 2**15 - 1


class Findings(list[Repair]):
    """The repairs that a message needs, the number of elements that its arrays may still have, and a limit."""

    __slots__ = ("elements_left", "string_bytes_max")

    def __init__(self, elements_max: int, string_bytes_max: int = STRING_BYTES_MAX) -> None:
        self.elements_left = elements_max
        self.string_bytes_max: Final = string_bytes_max


# Takes the message, a position and the findings so far; returns the position after the field.
Step = Callable[[Data, int, Findings], int]

_SIZES: Final = {
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "float64": 8,
    "uuid": 16,
    "error_code": 2,
    "timedelta_i32": 4,
    "timedelta_i64": 8,
    "datetime_i64": 8,
}
# Enough for any frame: its bytes are the limit.
ANY_NUMBER: Final = 1 << 32
# As many numbers in an array count as one element: decoding them costs as much.
NUMBERS_PER_ELEMENT: Final = 16
# Of one structure. A schema has a handful, and a newer client may send a few more.
TAGGED_FIELDS_MAX: Final = 1000
D = TypeVar("D", bytes, memoryview)
_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_PRESENT: Final = b"\x01"
_ABSENT: Final = b"\xff"


class UnreadableMessage(SerialError):
    """A message that Kafka would reject too."""


class TooManyElements(UnreadableMessage):
    """All arrays together have more elements than this walk allows."""


def message_walk(
    message_type: Any, elements_max: int = ANY_NUMBER, string_bytes_max: int = STRING_BYTES_MAX
) -> Callable[[D, int], D | bytes]:
    """A function that returns a message that kio can decode: itself, or a repaired copy. Raises UnreadableMessage.

    `elements_max` is the number of structures and strings in all arrays.
    """
    walk = entity_walk(message_type)

    def check(data: D, position: int) -> D | bytes:
        repairs = Findings(elements_max, string_bytes_max)
        try:
            walk(data, position, repairs)
        except (IndexError, struct.error) as error:
            raise UnreadableMessage("message shorter than its fields") from error
        return apply_repairs(data, repairs) if repairs else data

    return check


def checked_reader(
    message_type: Any, elements_max: int = ANY_NUMBER, string_bytes_max: int = STRING_BYTES_MAX
) -> Callable[[Any, int], Any]:
    """A function that walks and decodes the message at a position. Raises SerialError."""
    check = message_walk(message_type, elements_max, string_bytes_max)
    read = entity_reader(message_type)

    def read_checked(data: Any, position: int) -> Any:
        checked = check(data, position)
        try:
            return read(checked, position)[0]
        except ValueError as error:
            # For example an error code of a later release, or a duration of more than a billion days.
            raise UnreadableMessage(str(error)) from error

    def read_or_repair(data: Any, position: int) -> Any:
        try:
            return read(data, position)[0]
        except (SerialError, KeyError, ValueError):
            # A KeyError is an unknown tagged field.
            return read_checked(data, position)

    # kio allocates only for the elements of arrays: without them, only a message that it rejects is walked.
    return read_checked if has_arrays(message_type) else read_or_repair


def apply_repairs(data: Data, repairs: list[Repair]) -> bytes:
    pieces: list[Data] = []
    done = 0
    for start, end, replacement in repairs:
        pieces += (data[done:start], replacement)
        done = end
    pieces.append(data[done:])
    return b"".join(pieces)


@cache
def entity_walk(entity_type: Any) -> Step:
    steps: list[Step] = []
    fixed_size = 0
    for _, hint, kafka_type in untagged_fields(entity_type):
        step = field_walk(hint, kafka_type, entity_type.__flexible__)
        if isinstance(step, int):
            fixed_size += step
        else:
            # Adjacent fields of fixed size are skipped in one step.
            if fixed_size:
                steps.append(skip_bytes(fixed_size))
                fixed_size = 0
            steps.append(step)
    if fixed_size:
        steps.append(skip_bytes(fixed_size))
    if entity_type.__flexible__:
        steps.append(tagged_fields_walk(entity_type))

    def walk(data: Data, position: int, repairs: Findings) -> int:
        for step in steps:
            position = step(data, position, repairs)
        return position

    return walk


def untagged_fields(entity_type: Any) -> list[tuple[str, Any, str | None]]:
    """Name, type and Kafka type of the fields, in the order of the message."""
    hints = typing.get_type_hints(entity_type)
    return [
        (field.name, hints[field.name], field.metadata.get("kafka_type"))
        for field in dataclasses.fields(entity_type)
        if "tag" not in field.metadata
    ]


def has_arrays(entity_type: Any) -> bool:
    """Whether the entity or a structure in it has an array, in a tagged field or not."""
    hints = typing.get_type_hints(entity_type)
    wanted = [not_none(hints[field.name])[0] for field in dataclasses.fields(entity_type)]
    return any(
        typing.get_origin(hint) is tuple or (dataclasses.is_dataclass(hint) and has_arrays(hint)) for hint in wanted
    )


def not_none(hint: Any) -> tuple[Any, bool]:
    """The type without None, and whether it is nullable."""
    if not isinstance(hint, UnionType):
        return hint, False
    (wanted,) = (option for option in typing.get_args(hint) if option is not NoneType)
    return wanted, True


def field_walk(hint: Any, kafka_type: str | None, flexible: bool) -> Step | int:
    """The step that skips a field, or its size if that is fixed."""
    hint, nullable = not_none(hint)
    if typing.get_origin(hint) is tuple:
        (element_hint, *_) = typing.get_args(hint)
        element = field_walk(element_hint, kafka_type, flexible)
        return _array(element, field_bytes_min(element_hint, kafka_type, flexible), flexible, nullable)
    if dataclasses.is_dataclass(hint):
        walk = entity_walk(typing.cast(Any, hint))
        return _nullable_entity(walk) if nullable else walk
    if kafka_type == "string":
        return _string(flexible, nullable)
    if kafka_type in ("bytes", "records"):
        return _bytes(flexible, nullable)
    if kafka_type == "bool":
        return _boolean
    assert kafka_type is not None, f"field of {hint} without a type"
    return _SIZES[kafka_type]


def field_bytes_min(hint: Any, kafka_type: str | None, flexible: bool) -> int:
    """The size of the shortest encoding of a field: null, or empty strings and arrays."""
    hint, nullable = not_none(hint)
    if typing.get_origin(hint) is tuple or kafka_type in ("bytes", "records"):
        return 1 if flexible else _I32.size
    if kafka_type == "string":
        return 1 if flexible else _I16.size
    if dataclasses.is_dataclass(hint):
        return 1 if nullable else _entity_bytes_min(typing.cast(Any, hint))
    return 1 if kafka_type == "bool" else _SIZES[str(kafka_type)]


@cache
def _entity_bytes_min(entity_type: Any) -> int:
    flexible: bool = entity_type.__flexible__
    total = sum(field_bytes_min(hint, kafka_type, flexible) for _, hint, kafka_type in untagged_fields(entity_type))
    # Every element takes a byte, or else an array could have any number of them.
    return max(1, total + (1 if flexible else 0))


def skip_bytes(size: int) -> Step:
    def walk(data: Data, position: int, repairs: Findings) -> int:
        position += size
        if position > len(data):
            raise UnreadableMessage("message shorter than its fields")
        return position

    return walk


def _boolean(data: Data, position: int, repairs: Findings) -> int:
    if data[position] > 1:
        repairs.append((position, position + 1, _PRESENT))
    return position + 1


def read_length(
    data: Data, position: int, repairs: Findings, prefix: struct.Struct | None, nullable: bool, bytes_min: int = 1
) -> int:
    """A length or count, -1 for null. A prefix of None is the compact encoding, which adds one.

    Rejects more elements of `bytes_min` or more bytes than the message can hold.
    """
    start = position + 1
    if prefix is None:
        length = data[position] - 1
        if length >= 0x7F:
            length = read_unsigned_varint(data, position)[0] - 1
    else:
        start = position + prefix.size
        (length,) = prefix.unpack_from(data, position)
        if length < -1 and nullable:
            repairs.append((position, position + prefix.size, b"\xff" * prefix.size))
            length = -1
    if length < 0 and not nullable:
        raise UnreadableMessage("null in a field that is not nullable")
    if length * bytes_min > len(data) - start:
        raise UnreadableMessage("field longer than the message")
    return int(length)


def after_length(data: Data, position: int, prefix: struct.Struct | None) -> int:
    if prefix is not None:
        return position + prefix.size
    return position + 1 if data[position] < 0x80 else read_unsigned_varint(data, position)[1]


def _string(flexible: bool, nullable: bool) -> Step:
    prefix = None if flexible else _I16

    def walk(data: Data, position: int, repairs: Findings) -> int:
        length = read_length(data, position, repairs, prefix, nullable)
        start = after_length(data, position, prefix)
        if length <= 0:
            return start
        bytes_max = repairs.string_bytes_max
        if length > bytes_max:
            raise UnreadableMessage(f"string longer than {bytes_max} bytes")
        end = start + length
        text = bytes(data[start:end])
        if len(text) < length:
            raise UnreadableMessage("field longer than the message")
        if not text.isascii():
            readable = text.decode(errors="replace").encode()
            if prefix is not None:
                bytes_max = STRING_BYTES_MAX
            if len(readable) > bytes_max:
                raise UnreadableMessage(f"string longer than {bytes_max} bytes after replacement")
            if readable != text:
                size = write_unsigned_varint(len(readable) + 1) if prefix is None else prefix.pack(len(readable))
                repairs.append((position, end, size + readable))
        return end

    return walk


def _bytes(flexible: bool, nullable: bool) -> Step:
    prefix = None if flexible else _I32

    def walk(data: Data, position: int, repairs: Findings) -> int:
        length = read_length(data, position, repairs, prefix, nullable)
        end = after_length(data, position, prefix) + max(length, 0)
        if end > len(data):
            raise UnreadableMessage("field longer than the message")
        return end

    return walk


def array_prefix(flexible: bool) -> struct.Struct | None:
    return None if flexible else _I32


def _array(element: Step | int, element_bytes_min: int, flexible: bool, nullable: bool) -> Step:
    prefix = array_prefix(flexible)

    def walk(data: Data, position: int, repairs: Findings) -> int:
        count = read_length(data, position, repairs, prefix, nullable, element_bytes_min)
        position = after_length(data, position, prefix)
        if count <= 0:
            return position
        repairs.elements_left -= count // NUMBERS_PER_ELEMENT if isinstance(element, int) else count
        if repairs.elements_left < 0:
            raise TooManyElements("too many elements")
        if isinstance(element, int):
            position += count * element
            if position > len(data):
                raise UnreadableMessage("array longer than the message")
            return position
        for _ in range(count):
            position = element(data, position, repairs)
        return position

    return walk


def _nullable_entity(walk_entity: Step) -> Step:
    def walk(data: Data, position: int, repairs: Findings) -> int:
        marker = data[position]
        present = marker < 0x80
        wanted = _PRESENT if present else _ABSENT
        if marker != wanted[0]:
            repairs.append((position, position + 1, wanted))
        return walk_entity(data, position + 1, repairs) if present else position + 1

    return walk


def tagged_fields_walk(entity_type: Any) -> Step:
    """The step that skips the section of tagged fields at the end of a flexible structure."""
    hints = typing.get_type_hints(entity_type)
    known: dict[int, Step] = {}
    for field in dataclasses.fields(entity_type):
        if "tag" in field.metadata:
            step = field_walk(hints[field.name], field.metadata.get("kafka_type"), flexible=True)
            known[field.metadata["tag"]] = step if callable(step) else skip_bytes(step)

    def walk(data: Data, position: int, repairs: Findings) -> int:
        if data[position] == 0:
            return position + 1
        counted_at = position
        count, position = (
            (data[position], position + 1) if data[position] < 0x80 else read_unsigned_varint(data, position)
        )
        if count > TAGGED_FIELDS_MAX:
            raise UnreadableMessage(f"more than {TAGGED_FIELDS_MAX} tagged fields")
        inside: list[Repair] = []
        kept = 0
        after_count = position
        for _ in range(count):
            field_start = position
            tag, size = data[position], data[position + 1]
            if tag < 0x80 and size < 0x80:
                position += 2
            else:
                tag, position = read_unsigned_varint(data, position)
                size, position = read_unsigned_varint(data, position)
            end = position + size
            if end > len(data):
                raise UnreadableMessage("tagged field longer than the message")
            step = known.get(tag)
            if step is None:
                inside.append((field_start, end, b""))
            else:
                kept += 1
                _walk_exactly(step, data, position, end, repairs)
            position = end
        if kept != count:
            repairs.append((counted_at, after_count, write_unsigned_varint(kept)))
            repairs += inside
        return position

    return walk


def _walk_exactly(step: Step, data: Data, position: int, end: int, findings: Findings) -> None:
    """A known tagged field must have exactly its announced size, so it cannot be repaired."""
    repaired = len(findings)
    if step(data, position, findings) != end or len(findings) > repaired:
        raise UnreadableMessage("tagged field of the wrong type")

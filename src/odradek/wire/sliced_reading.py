"""Decodes a large message in slices, so that the event loop serves other connections in between.

kio decodes a message in one call, which would block the event loop for half a second if a Fetch names 100,000
partitions. In a thread it would block it as well, because kio holds the interpreter lock. Here arrays are decoded
element by element, and the rest of the message, with empty arrays, as a whole.

It must not know the event loop: a decoder is a generator, and its caller decides when the next slice runs.
"""

import dataclasses
import struct
import typing
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from kio.serial import entity_reader
from kio.serial._parse import get_reader

from odradek.base.message_walk import (
    ANY_NUMBER,
    NUMBERS_PER_ELEMENT,
    Findings,
    Step,
    TooManyElements,
    UnreadableMessage,
    after_length,
    apply_repairs,
    array_prefix,
    field_bytes_min,
    field_walk,
    message_walk,
    not_none,
    read_length,
    skip_bytes,
    tagged_fields_walk,
    untagged_fields,
)
from odradek.base.slices import Slices

# Structures and strings that are decoded in one slice, which takes about a millisecond.
SLICE_ELEMENTS: Final = 256


def message_slices(message_type: Any, slice_elements: int = SLICE_ELEMENTS) -> Callable[[bytes, int, int], Slices[Any]]:
    """A function that decodes the message at a position, with a limited number of elements in all arrays.

    The slices raise UnreadableMessage.
    """
    read_entity = _entity_slices(message_type)

    def read(data: bytes, position: int, elements_max: int = ANY_NUMBER) -> Slices[Any]:
        try:
            message, _ = yield from read_entity(data, position, _Turn(slice_elements, elements_max))
        except (IndexError, struct.error) as error:
            raise UnreadableMessage("message shorter than its fields") from error
        except ValueError as error:
            # For example a duration of more than a billion days.
            raise UnreadableMessage(str(error)) from error
        return message

    return read


class _Turn:
    """How much the current slice may still decode, and what was found about the current element."""

    def __init__(self, slice_elements: int, elements_max: int) -> None:
        self.slice_elements: Final = slice_elements
        self.left: float = slice_elements
        self.findings: Final = Findings(slice_elements)
        self._elements_left = elements_max

    def end_slice(self) -> None:
        self._elements_left -= round(self.slice_elements - self.left)
        if self._elements_left < 0:
            raise TooManyElements("too many elements")
        self.left = self.slice_elements


# An entity or the elements of an array (None: null), and the position after it.
_EntitySlices: TypeAlias = Callable[[bytes, int, _Turn], Slices[tuple[Any, int]]]
_ArraySlices: TypeAlias = Callable[[bytes, int, _Turn], Slices[tuple[tuple[Any, ...] | None, int]]]


class _Field(NamedTuple):
    name: str
    skip: Step
    read_array: _ArraySlices | None
    """None: the field is not an array."""


@cache
def _entity_slices(entity_type: Any) -> _EntitySlices:
    flexible: bool = entity_type.__flexible__
    fields = [_field(*field, flexible) for field in untagged_fields(entity_type)]
    skip_tagged_fields = tagged_fields_walk(entity_type) if flexible else skip_bytes(0)
    walk_rest = message_walk(entity_type)
    read_rest = entity_reader(entity_type)
    no_elements, null = (b"\1", b"\0") if flexible else (bytes(4), b"\xff\xff\xff\xff")

    def read(data: bytes, position: int, turn: _Turn) -> Slices[tuple[Any, int]]:
        arrays: dict[str, tuple[Any, ...]] = {}
        rest = bytearray()
        ignored = Findings(turn.slice_elements)
        for name, skip, read_array in fields:
            if read_array is None:
                end = skip(data, position, ignored)
                rest += data[position:end]
            else:
                elements, end = yield from read_array(data, position, turn)
                rest += null if elements is None else no_elements
                if elements:
                    arrays[name] = elements
            position = end
        end = skip_tagged_fields(data, position, ignored)
        rest += data[position:end]
        entity, _ = read_rest(walk_rest(bytes(rest), 0), 0)
        return dataclasses.replace(entity, **arrays), end

    return read


def _field(name: str, hint: Any, kafka_type: str | None, flexible: bool) -> _Field:
    wanted, nullable = not_none(hint)
    skip = field_walk(hint, kafka_type, flexible)
    step = skip_bytes(skip) if isinstance(skip, int) else skip
    if typing.get_origin(wanted) is not tuple:
        return _Field(name, step, None)
    (element_hint, *_) = typing.get_args(wanted)
    return _Field(name, step, _array_slices(element_hint, kafka_type, flexible, nullable))


def _array_slices(hint: Any, kafka_type: str | None, flexible: bool, nullable: bool) -> _ArraySlices:
    """`hint` and `kafka_type` are those of an element."""
    prefix = array_prefix(flexible)
    bytes_min = field_bytes_min(hint, kafka_type, flexible)
    walk = field_walk(hint, kafka_type, flexible)
    step, weight = (skip_bytes(walk), 1 / NUMBERS_PER_ELEMENT) if isinstance(walk, int) else (walk, 1)
    element_type, is_optional = not_none(hint)
    is_entity = dataclasses.is_dataclass(element_type)
    assert not (is_entity and is_optional), f"array of nullable {element_type}"
    read_element = entity_reader(element_type) if is_entity else get_reader(str(kafka_type), flexible, is_optional)

    def read(data: bytes, position: int, turn: _Turn) -> Slices[tuple[tuple[Any, ...] | None, int]]:
        findings = turn.findings
        count = read_length(data, position, Findings(0), prefix, nullable, bytes_min)
        position = after_length(data, position, prefix)
        if count < 0:
            return None, position
        elements: list[Any] = []
        for _ in range(count):
            findings.elements_left = turn.slice_elements
            try:
                end = step(data, position, findings)
            except TooManyElements:
                # The element has large arrays of its own.
                findings.clear()
                element, end = yield from _entity_slices(element_type)(data, position, turn)
            else:
                if findings:
                    element, _ = read_element(_repair(data, position, end, findings), 0)
                else:
                    element, _ = read_element(data, position)
            elements.append(element)
            position = end
            turn.left -= weight + turn.slice_elements - findings.elements_left
            if turn.left <= 0:
                turn.end_slice()
                yield
        return tuple(elements), position

    return read


def _repair(data: bytes, start: int, end: int, findings: Findings) -> bytes:
    shifted = [(first - start, last - start, replacement) for first, last, replacement in findings]
    findings.clear()
    return apply_repairs(data[start:end], shifted)

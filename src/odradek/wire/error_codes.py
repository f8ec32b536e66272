"""Finds the error codes of a response, including those of its parts.

The fields to read are determined once per message class; a response without error codes costs nothing.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any, Final, NamedTuple, get_args, get_origin, get_type_hints

from odradek.base.errors import ErrorCode

_KAFKA_TYPE: Final = "error_code"


class _Places(NamedTuple):
    own: Callable[[Any], ErrorCode] | None
    """Reads the entity's own error code, if it has one."""
    parts: tuple[tuple[Any, "_Places"], ...]
    """Arrays of parts with error codes: how to read them, and the plan of each part."""


def error_codes(response: Any) -> list[ErrorCode]:
    """All error codes but NONE, with duplicates."""
    found: list[ErrorCode] = []
    places = _places(response.__class__)
    if places is not None:
        _collect(response, places, found)
    return found


def own_error_code(entity: Any) -> ErrorCode:
    """Without those of its parts."""
    places = _places(entity.__class__)
    return ErrorCode.none if places is None or places.own is None else places.own(entity)


def _collect(entity: Any, places: _Places, found: list[ErrorCode]) -> None:
    if places.own is not None and (own := places.own(entity)) is not ErrorCode.none:
        found.append(own)
    for parts_of, in_part in places.parts:
        for part in parts_of(entity) or ():
            _collect(part, in_part, found)


@cache
def _places(message_class: type) -> _Places | None:
    if not is_dataclass(message_class):
        return None
    hints = get_type_hints(message_class)
    own = None
    parts = []
    for field in fields(message_class):
        if field.metadata.get("kafka_type") == _KAFKA_TYPE:
            own = attrgetter(field.name)
        for part_class in _element_classes(hints[field.name]):
            in_part = _places(part_class)
            if in_part is not None:
                parts.append((attrgetter(field.name), in_part))
    return _Places(own, tuple(parts)) if own is not None or parts else None


def _element_classes(hint: Any) -> list[type]:
    """The element type of an array, which may be nullable."""
    if get_origin(hint) is tuple:
        return [one for one in get_args(hint) if isinstance(one, type)]
    return [found for one in get_args(hint) for found in _element_classes(one)]

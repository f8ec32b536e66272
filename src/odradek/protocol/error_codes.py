"""Which errors a response speaks of, in itself and in its parts.

Where to look is found once for every message class; a response that cannot carry an error costs nothing.
"""

from dataclasses import fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any, Final, NamedTuple, get_args, get_origin, get_type_hints

from odradek.base.errors import ErrorCode

_NAME: Final = "error_code"


class _Places(NamedTuple):
    has_own: bool
    parts: tuple[tuple[Any, "_Places"], ...]
    """Arrays of parts that carry errors: how to get them, and where to look in each."""


def error_codes(response: Any) -> list[ErrorCode]:
    """All but success, each as often as it is there."""
    found: list[ErrorCode] = []
    places = _places(response.__class__)
    if places is not None:
        _collect(response, places, found)
    return found


def _collect(entity: Any, places: _Places, found: list[ErrorCode]) -> None:
    if places.has_own and entity.error_code is not ErrorCode.none:
        found.append(entity.error_code)
    for parts_of, in_part in places.parts:
        for part in parts_of(entity) or ():
            _collect(part, in_part, found)


@cache
def _places(message_class: type) -> _Places | None:
    if not is_dataclass(message_class):
        return None
    hints = get_type_hints(message_class)
    parts = []
    for field in fields(message_class):
        for part_class in _element_classes(hints[field.name]):
            in_part = _places(part_class)
            if in_part is not None:
                parts.append((attrgetter(field.name), in_part))
    has_own = _NAME in hints
    return _Places(has_own, tuple(parts)) if has_own or parts else None


def _element_classes(hint: Any) -> list[type]:
    """Of an array, which may be one that can be absent."""
    if get_origin(hint) is tuple:
        return [one for one in get_args(hint) if isinstance(one, type)]
    return [found for one in get_args(hint) for found in _element_classes(one)]

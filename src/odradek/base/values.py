"""Frozen dataclasses with slots that are fast to create.

`dataclass` compiles six methods per class, which delays the start of a node with dozens of classes. These classes share
all methods but `__init__`. To the type checker they are ordinary frozen dataclasses.
"""

from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    return _make(cls, kw_only=False)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def named_value(cls: type[T]) -> type[T]:
    """With keyword-only fields."""
    return _make(cls, kw_only=True)


def _make(cls: type[T], *, kw_only: bool) -> type[T]:
    made: Any = dataclass(repr=False, eq=False, slots=True, kw_only=kw_only)(cls)
    made.__eq__ = _equals
    made.__hash__ = _hash
    if made.__repr__ is object.__repr__:
        made.__repr__ = _show
    result: type[T] = made
    return result


def _equals(self: Any, other: Any) -> bool:
    return other.__class__ is self.__class__ and all(
        getattr(self, name) == getattr(other, name) for name in self.__dataclass_fields__
    )


def _hash(self: Any) -> int:
    return hash(tuple(getattr(self, name) for name in self.__dataclass_fields__))


def _show(self: Any) -> str:
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__dataclass_fields__)
    return f"{type(self).__qualname__}({fields})"

"""The results of a response by resource: which parts of a request have failed, and with which error."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final, NamedTuple

from odradek.base.errors import ErrorCode
from odradek.wire.error_codes import own_error_code
from odradek.wire.schemas import Message

_NAMES: Final = (
    "resource_name",
    "topic_name",
    "topic",
    "name",
    "group_id",
    "user",
    "feature",
    "producer_id",
    "topic_id",
)
_PARTITIONS: Final = ("partition_index", "partition_id")


class Result(NamedTuple):
    names: tuple[str, ...]
    """Of the resource, the outer one first. Empty: the response has no names here."""
    partition: int | None
    position: int
    """In the array that contains the result."""
    code: ErrorCode
    config_type: int | None = None
    """Of a config: the type of its resource."""


def results_of(response: Message) -> list[Result]:
    """Of all parts that have an error code and no parts with one."""
    return list(_walk(response, (), 0))


def _walk(entity: Any, names: tuple[str, ...], position: int) -> Iterator[Result]:
    own_name = _name_of(entity)
    if own_name is not None:
        names = (*names, own_name)
    code = _own_code(entity)
    parts = [part for part in _parts(entity) if part]
    if code is not None and (code is not ErrorCode.none or not parts):
        partition = next((getattr(entity, one) for one in _PARTITIONS if hasattr(entity, one)), None)
        yield Result(names, partition, position, code, getattr(entity, "resource_type", None))
        return
    for part in parts:
        for index, one in enumerate(part):
            yield from _walk(one, names, index)


def _own_code(entity: Any) -> ErrorCode | None:
    """None: this kind of entity has no error code."""
    return own_error_code(entity) if hasattr(entity, "error_code") else None


def _name_of(entity: Any) -> str | None:
    if hasattr(entity, "entity"):
        # Of client quotas.
        return ",".join(f"{one.entity_type}={one.entity_name or '<default>'}" for one in entity.entity)
    for name in _NAMES:
        value = getattr(entity, name, None)
        if value is not None:
            return str(value)
    return None


def _parts(entity: Any) -> Iterator[Sequence[Any]]:
    """The arrays of parts with results."""
    if is_dataclass(entity):
        for field in fields(entity):
            value = getattr(entity, field.name)
            if isinstance(value, tuple) and value and is_dataclass(value[0]) and _has_results(value[0]):
                yield value


def _has_results(entity: Any) -> bool:
    return hasattr(entity, "error_code") or any(True for _ in _parts(entity))
